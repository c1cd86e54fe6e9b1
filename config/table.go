// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"firn/cluster"
)

// setting is one row of the table.
type setting struct {
	name string
	area area
	typ  cluster.ConfigType
	unit cluster.Unit
	// def is the default in plain numbers.
	def string
	// instead names weaker settings that give the value when this one is not
	// set, as log.retention.hours does for log.retention.ms.
	instead   []string
	sensitive bool
	doc       string
	// check judges a value in plain numbers; nil allows all. The error says
	// what is allowed.
	check func(string) error
}

// area groups settings in the reference.
type area int

const (
	areaNode area = iota
	areaNetwork
	areaTopics
	areaLog
	areaFetch
	areaTier
	areaOperation
)

var areaTitles = [...]string{
	areaNode:      "Node",
	areaNetwork:   "Network",
	areaTopics:    "Topics",
	areaLog:       "Log and retention",
	areaFetch:     "Fetch",
	areaTier:      "Object store",
	areaOperation: "Operation",
}

// table is every setting that means something, by name. Nobody writes to it
// once it is built.
type table struct {
	byName map[string]*setting
	names  []string // sorted
	byEnv  map[string]string
}

var settings = sync.OnceValue(func() *table {
	t := &table{byName: make(map[string]*setting), byEnv: make(map[string]string)}
	for _, s := range slices.Concat(nodeSettings(), networkSettings(), tlsSettings(), topicSettings(), logSettings(), fetchSettings(), tierSettings(), operationSettings(), topicDefaultSettings()) {
		t.byName[s.name] = &s
		t.names = append(t.names, s.name)
		t.byEnv[envName(s.name)] = s.name
	}
	slices.Sort(t.names)
	return t
})

// envName is what follows FIRN_ or KAFKA_ in the environment.
func envName(name string) string {
	name = strings.TrimPrefix(name, "firn.")
	return strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

func text(a area, name, def, doc string, check func(string) error) setting {
	return setting{name: name, area: a, typ: cluster.TypeString, def: def, doc: doc, check: check}
}

func list(a area, name, def, doc string) setting {
	return setting{name: name, area: a, typ: cluster.TypeList, def: def, doc: doc}
}

func boolean(a area, name string, def bool, doc string) setting {
	return setting{name: name, area: a, typ: cluster.TypeBoolean, def: strconv.FormatBool(def), doc: doc, check: checkBool}
}

func integer(a area, name string, def, lo, hi int64, doc string) setting {
	return setting{name: name, area: a, typ: intType(hi), def: strconv.FormatInt(def, 10), doc: doc, check: between(lo, hi)}
}

func size(a area, name string, def, lo, hi int64, doc string) setting {
	s := integer(a, name, def, lo, hi, doc)
	s.unit = cluster.UnitBytes
	return s
}

func millis(a area, name string, def, lo int64, doc string) setting {
	s := integer(a, name, def, lo, math.MaxInt64, doc)
	s.unit = cluster.UnitMs
	return s
}

func secret(a area, name, doc string) setting {
	return setting{name: name, area: a, typ: cluster.TypePassword, sensitive: true, doc: doc}
}

func intType(hi int64) cluster.ConfigType {
	if hi <= math.MaxInt32 {
		return cluster.TypeInt
	}
	return cluster.TypeLong
}

func between(lo, hi int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil && n >= lo && n <= hi {
			return nil
		}
		if hi == math.MaxInt64 {
			return fmt.Errorf("want a whole number from %d up", lo)
		}
		return fmt.Errorf("want a whole number from %d to %d", lo, hi)
	}
}

func checkBool(v string) error {
	if l := strings.ToLower(v); l != "true" && l != "false" {
		return fmt.Errorf("want true or false")
	}
	return nil
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(allowed, v) {
			return nil
		}
		last := len(allowed) - 1
		return fmt.Errorf("want %s or %s", strings.Join(allowed[:last], ", "), allowed[last])
	}
}

// splitList takes a comma-separated list apart; blanks around elements and
// empty elements fall away.
func splitList(v string) []string {
	var out []string
	for e := range strings.SplitSeq(v, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}
