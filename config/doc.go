// SPDX-License-Identifier: Apache-2.0

// Package config knows every setting of the broker: name, type, unit,
// default, limits and meaning. It gathers their values from all sources,
// judges them together, and hands them out as plain structs.
//
//	--set key=value        strongest
//	FIRN_LOG_DIRS
//	KAFKA_LOG_DIRS
//	firn.yaml, server.properties
//	default                weakest
//
// A file is YAML with dotted keys or Kafka's server.properties as it is. The
// environment's names are the settings' in capitals with dots as underscores;
// settings under "firn." lose that word there, and FIRN_CONFIG names the
// file. Sizes and times may carry a unit in all sources (512MiB, 7d).
//
// Names that are unknown are faults in files and flags, with the nearest name
// as a suggestion, and warnings in the environment, where containers set many
// of their own. Kafka's settings that mean nothing here are accepted with one
// warning. Faults come all at once, and each names the key, the value, the
// source and what is allowed. Secrets are never printed.
//
// The package does not open, connect to or create anything, and it does not
// watch for changes. viper is used here and nowhere else. It owns no
// goroutine.
//
// Invariants:
//
//	I1  A Config exists only when there was no fault at all.
//	I2  Every value in a Config passed the check of its row in the table, and
//	    is kept in plain numbers (ms, bytes).
//	I3  A sensitive value appears in no error, warning, description or
//	    reference.
//	I4  docs/CONFIGURATION.md is what Reference returns.
package config
