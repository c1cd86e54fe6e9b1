// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/cluster"
	"firn/wire"
)

// IncrementalAlterConfigs (key 44, KIP-339), versions 0 and 1.
//
// Changes some configs of each topic and leaves the others: SET, DELETE, and
// for lists APPEND and SUBTRACT, which go by the value in force. The outcome
// is checked as a whole, with every fault named; it is durable and in force
// when the answer is sent. Of remote.storage.enable only turning on is
// supported. Brokers have no config that can be changed while they run, and
// other kinds of resources are not kept here. Version 1 is flexible.

func (b *Broker) handleIncrementalAlterConfigs(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
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
		err := b.alterResource(ctx, resource, times[resource], req.ValidateOnly, func(t *topic) (map[string]string, error) {
			return b.alteredConfig(t, want.Configs)
		})
		got := kmsg.NewIncrementalAlterConfigsResponseResource()
		got.ResourceType, got.ResourceName = want.ResourceType, want.ResourceName
		got.ErrorCode, got.ErrorMessage = errorCode(err), errorText(err)
		resp.Resources = append(resp.Resources, got)
	}
	return reply(resp), nil
}

// alteredConfig is a topic's config after the operations of a request.
func (b *Broker) alteredConfig(t *topic, ops []kmsg.IncrementalAlterConfigsRequestResourceConfig) (map[string]string, error) {
	set := make(map[string]string)
	maps.Copy(set, t.Config)
	named := make(map[string]bool)
	var faults []error
	for _, op := range ops {
		err := b.applyOp(t, op, set)
		if named[op.Name] {
			err = fmt.Errorf("%w: %s is named twice", errInvalidRequest, op.Name)
		}
		named[op.Name] = true
		faults = append(faults, err)
	}
	return set, errors.Join(faults...)
}

func (b *Broker) applyOp(t *topic, op kmsg.IncrementalAlterConfigsRequestResourceConfig, set map[string]string) error {
	if op.Op == kmsg.IncrementalAlterConfigOpDelete {
		delete(set, op.Name)
		return nil
	}
	if op.Value == nil {
		return fmt.Errorf("%w: %s has no value", errInvalidRequest, op.Name)
	}
	switch op.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		set[op.Name] = *op.Value
		return nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		entries := cluster.DescribeTopic(t.Name, t.Config, b.options.TopicDefaults)
		i := slices.IndexFunc(entries, func(e cluster.ConfigEntry) bool { return e.Name == op.Name })
		if i < 0 || entries[i].Type != cluster.TypeList {
			return fmt.Errorf("%w: %s is no list: nothing can be appended to it or subtracted from it", errInvalidConfig, op.Name)
		}
		set[op.Name] = alterList(*entries[i].Value, *op.Value, op.Op == kmsg.IncrementalAlterConfigOpAppend)
		return nil
	}
	return fmt.Errorf("%w: %s: operation %d is not known", errInvalidRequest, op.Name, op.Op)
}

// alterList adds the items of a list in commas to another one, or takes them
// away.
func alterList(list, items string, add bool) string {
	out := listItems(list)
	for _, item := range listItems(items) {
		at := slices.Index(out, item)
		switch {
		case add && at < 0:
			out = append(out, item)
		case !add && at >= 0:
			out = slices.Delete(out, at, at+1)
		}
	}
	return strings.Join(out, ",")
}

func listItems(list string) []string {
	var items []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
