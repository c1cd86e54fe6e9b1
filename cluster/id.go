// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/rand"
	"fmt"

	"github.com/google/uuid"

	"firn/record"
)

// NewTopicID makes a random topic id. Like Kafka it never makes one whose
// text begins with '-', which command lines would take for an option.
func NewTopicID() (record.TopicID, error) {
	for {
		id, err := uuid.NewRandomFromReader(rand.Reader)
		if err != nil {
			return record.TopicID{}, fmt.Errorf("make a random id: %w", err)
		}
		if t := record.TopicID(id); t.String()[0] != '-' {
			return t, nil
		}
	}
}

// NewClusterID makes a random cluster id in Kafka's form: a UUID in 22
// characters of URL-safe base64.
func NewClusterID() (string, error) {
	id, err := NewTopicID()
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

// CheckClusterID tells whether id has the form that NewClusterID makes.
func CheckClusterID(id string) error {
	t, err := record.ParseTopicID(id)
	if err != nil || t.String() != id {
		return fmt.Errorf("cluster id %q: want 22 characters of URL-safe base64", id)
	}
	return nil
}
