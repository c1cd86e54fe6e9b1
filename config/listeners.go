// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The security protocols that are supported.
const (
	protocolPlaintext = "PLAINTEXT"
	protocolSSL       = "SSL"
)

// listeners reads listeners, their protocols and what is advertised, and
// refuses what would be open to the network without authentication.
func (l *loader) listeners(c *Config) []Listener {
	protocols := l.protocolMap(c)
	controllers := upper(c.list("controller.listener.names"))
	var out []Listener
	for _, e := range c.list("listeners") {
		name, addr, err := parseListener(e)
		if err != nil {
			l.blame(c, "listeners", err.Error())
			continue
		}
		if slices.Contains(controllers, name) {
			continue
		}
		secure, err := checkProtocol(name, protocols)
		if err != nil {
			l.blame(c, "listeners", err.Error())
			continue
		}
		if clash := slices.IndexFunc(out, func(o Listener) bool {
			return o.Name == name || addr.Port != 0 && o.Bind == addr
		}); clash >= 0 {
			l.blame(c, "listeners", "want each name and each address once, "+e+" clashes with "+out[clash].Name+"://"+out[clash].Bind.String())
			continue
		}
		if !secure || c.text("ssl.client.auth") != "required" {
			l.refuseInsecure(c, "listeners", e, addr)
		}
		if secure && !hasKeystore(c) {
			l.blame(c, "listeners", e+" needs a certificate: set ssl.keystore.location, or ssl.keystore.certificate.chain and ssl.keystore.key")
		}
		out = append(out, Listener{Name: name, Bind: addr, TLS: secure})
	}
	if len(out) == 0 && len(l.faults) == 0 {
		l.blame(c, "listeners", "want at least one listener for clients")
	}
	l.advertise(c, out, controllers)
	return out
}

func upper(names []string) []string {
	for i, n := range names {
		names[i] = strings.ToUpper(n)
	}
	return names
}

// protocolMap reads listener.security.protocol.map.
func (l *loader) protocolMap(c *Config) map[string]string {
	m := make(map[string]string)
	for _, e := range c.list("listener.security.protocol.map") {
		name, protocol, ok := strings.Cut(e, ":")
		if !ok || name == "" || protocol == "" {
			l.blame(c, "listener.security.protocol.map", "want NAME:PROTOCOL, "+strconv.Quote(e)+" is none")
			continue
		}
		m[strings.ToUpper(strings.TrimSpace(name))] = strings.ToUpper(strings.TrimSpace(protocol))
	}
	return m
}

// checkProtocol says whether a listener speaks TLS.
func checkProtocol(name string, protocols map[string]string) (secure bool, err error) {
	protocol, ok := protocols[name]
	if !ok {
		protocol = name
	}
	switch protocol {
	case protocolPlaintext:
		return false, nil
	case protocolSSL:
		return true, nil
	case "SASL_PLAINTEXT", "SASL_SSL":
		return false, fmt.Errorf("listener %s uses %s, only %s and %s are supported", name, protocol, protocolPlaintext, protocolSSL)
	}
	return false, fmt.Errorf("listener %s has no protocol in listener.security.protocol.map", name)
}

// parseListener takes NAME://host:port apart.
func parseListener(s string) (string, Address, error) {
	name, rest, ok := strings.Cut(s, "://")
	if !ok || name == "" {
		return "", Address{}, fmt.Errorf("want NAME://host:port, %q is none", s)
	}
	addr, err := parseAddress(rest)
	if err != nil {
		return "", Address{}, fmt.Errorf("want NAME://host:port, %q is none: %w", s, err)
	}
	return strings.ToUpper(name), addr, nil
}

func parseAddress(s string) (Address, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Address{}, errors.New("the host and port cannot be told apart")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Address{}, fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	return Address{Host: host, Port: int(n)}, nil
}

// refuseInsecure is the rule that nobody opens a broker to the network by
// accident.
func (l *loader) refuseInsecure(c *Config, name, element string, addr Address) {
	if !isLoopback(addr.Host) && !c.flag("firn.listeners.allow.insecure") {
		l.blame(c, name, element+" would be open to the network without authentication; want a loopback address, or firn.listeners.allow.insecure=true")
	}
}

// isLoopback says whether only this machine reaches the host. Names other
// than localhost are not looked up: what they mean can change.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isWildcard says whether the host means all interfaces.
func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// advertise fills in what clients are told, from advertised.listeners or the
// listeners themselves.
func (l *loader) advertise(c *Config, ls []Listener, controllers []string) {
	const key = "advertised.listeners"
	told := make(map[string]Address)
	for _, e := range c.list(key) {
		name, addr, err := parseListener(e)
		switch {
		case err != nil:
			l.blame(c, key, err.Error())
		case slices.Contains(controllers, name):
		case !slices.ContainsFunc(ls, func(o Listener) bool { return o.Name == name }):
			l.blame(c, key, "want names of listeners, "+name+" is none")
		case isWildcard(addr.Host):
			l.blame(c, key, "want a host that clients can connect to, "+strconv.Quote(addr.Host)+" is none")
		default:
			told[name] = addr
		}
	}
	for i := range ls {
		addr, ok := told[ls[i].Name]
		if !ok {
			addr = l.ownAddress(c, ls[i].Bind)
		}
		ls[i].Advertised = addr
	}
}

// ownAddress is what clients are told of a listener that nothing is said
// about: its own address, with this machine's name for an empty host.
func (l *loader) ownAddress(c *Config, bind Address) Address {
	if !isWildcard(bind.Host) {
		return bind
	}
	if bind.Host != "" {
		l.blame(c, "listeners", "clients cannot connect to "+bind.Host+": set advertised.listeners as well")
		return bind
	}
	host, err := l.o.Hostname()
	if err != nil || host == "" {
		l.blame(c, "listeners", "the name of this machine is unknown: set advertised.listeners as well")
		return bind
	}
	return Address{Host: host, Port: bind.Port}
}

// adminListeners reads the addresses of the admin port.
func (l *loader) adminListeners(c *Config) []Address {
	const key = "admin.listeners"
	elements := c.list(key)
	if len(elements) == 1 && elements[0] == "none" {
		return nil
	}
	var out []Address
	for _, e := range elements {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(e, "/"), "http://")
		addr, err := parseAddress(rest)
		if !ok || err != nil {
			l.blame(c, key, fmt.Sprintf("want http://host:port or none, %q is neither", e))
			continue
		}
		l.refuseInsecure(c, key, e, addr)
		out = append(out, addr)
	}
	return out
}
