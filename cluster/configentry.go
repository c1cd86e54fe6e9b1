// SPDX-License-Identifier: Apache-2.0

package cluster

// ConfigType is the type of a config's value, as Kafka's DescribeConfigs
// numbers it.
type ConfigType int8

// The types of Kafka's protocol.
const (
	TypeUnknown ConfigType = iota
	TypeBoolean
	TypeString
	TypeInt
	TypeShort
	TypeLong
	TypeDouble
	TypeList
	TypeClass
	TypePassword
)

// String is the type in lower case, as a reference prints it.
func (t ConfigType) String() string {
	names := [...]string{"unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}
	if t < 0 || int(t) >= len(names) {
		return names[TypeUnknown]
	}
	return names[t]
}

// ConfigSource tells where a config's value comes from, as Kafka's
// DescribeConfigs numbers it.
type ConfigSource int8

// The sources of Kafka's protocol that exist here.
const (
	SourceUnknown       ConfigSource = 0
	SourceTopic         ConfigSource = 1 // set on the topic
	SourceDynamicBroker ConfigSource = 2
	SourceStaticBroker  ConfigSource = 4 // flag, environment or file
	SourceDefault       ConfigSource = 5
)

// ConfigEntry is one config as DescribeConfigs shows it.
type ConfigEntry struct {
	Name string
	// Value is nil when the value is unknown or secret.
	Value     *string
	Type      ConfigType
	Source    ConfigSource
	ReadOnly  bool
	Sensitive bool
	Doc       string
	// Synonyms lists the settings that could give the value, the one that
	// does first.
	Synonyms []ConfigSynonym
}

// ConfigSynonym is a setting that an entry takes its value from, unless one
// before it in the list is set.
type ConfigSynonym struct {
	Name   string
	Value  *string
	Source ConfigSource
}
