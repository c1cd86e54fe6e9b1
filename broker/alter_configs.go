// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/wire"
)

// AlterConfigs (key 33), versions 0 to 2.
//
// Replaces the whole config of each topic by what is named: everything else
// goes back to its default. It is durable and in force when the answer is
// sent. IncrementalAlterConfigs has replaced it (KIP-339), but older clients
// know no other. Brokers have no config that can be changed while they run,
// and other kinds of resources are not kept here. Version 2 is flexible.

func (b *Broker) handleAlterConfigs(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	times := make(map[configResource]int)
	for _, want := range req.Resources {
		times[configResource{want.ResourceType, want.ResourceName}]++
	}
	answered := make(map[configResource]bool)
	for _, want := range req.Resources {
		resource := configResource{want.ResourceType, want.ResourceName}
		if answered[resource] {
			continue
		}
		answered[resource] = true
		err := b.alterResource(ctx, resource, times[resource], req.ValidateOnly, func(*topic) (map[string]string, error) {
			return wholeConfig(want.Configs)
		})
		got := kmsg.NewAlterConfigsResponseResource()
		got.ResourceType, got.ResourceName = want.ResourceType, want.ResourceName
		got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
		resp.Resources = append(resp.Resources, got)
	}
	return reply(resp), nil
}

// configResource is what a request calls something that has a config.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alterResource changes the config of a resource that is named so many times
// in the request.
func (b *Broker) alterResource(ctx context.Context, r configResource, times int, validateOnly bool, change func(*topic) (map[string]string, error)) error {
	if times != 1 {
		return fmt.Errorf("%w: %s %q is named %d times", errInvalidRequest, r.kind, r.name, times)
	}
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		return b.changeConfig(ctx, r.name, change, validateOnly)
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		return fmt.Errorf("%w: no setting of a broker can be changed while it runs: change it where it is set, and start the broker again", errInvalidRequest)
	}
	return fmt.Errorf("%w: configs of resource type %d are not kept here", errInvalidRequest, r.kind)
}

// wholeConfig is the config that a request names in full.
func wholeConfig(configs []kmsg.AlterConfigsRequestResourceConfig) (map[string]string, error) {
	set := make(map[string]string)
	var faults []error
	for _, c := range configs {
		_, twice := set[c.Name]
		switch {
		case twice:
			faults = append(faults, fmt.Errorf("%w: %s is named twice", errInvalidRequest, c.Name))
		case c.Value == nil:
			faults = append(faults, fmt.Errorf("%w: %s has no value", errInvalidRequest, c.Name))
		default:
			set[c.Name] = *c.Value
		}
	}
	return set, errors.Join(faults...)
}
