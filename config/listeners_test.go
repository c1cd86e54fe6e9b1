// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"
)

func TestListeners(t *testing.T) {
	const open = "firn.listeners.allow.insecure=true"
	hostname := func() (string, error) { return "box", nil }
	for _, c := range []struct {
		flags []string
		want  string // NAME bind advertised, ... or a part of the fault
		fault bool
	}{
		{[]string{"listeners=plaintext://127.0.0.1:0"}, "PLAINTEXT 127.0.0.1:0 127.0.0.1:0", false},
		{[]string{"listeners=PLAINTEXT://[::1]:9092"}, "PLAINTEXT [::1]:9092 [::1]:9092", false},
		{[]string{"listeners=PLAINTEXT://localhost:9092", "advertised.listeners=PLAINTEXT://proxy:19092"}, "PLAINTEXT localhost:9092 proxy:19092", false},
		{[]string{"listeners=PLAINTEXT://:9092", open}, "PLAINTEXT :9092 box:9092", false},
		{[]string{"listeners=PLAINTEXT://0.0.0.0:9092", open}, "clients cannot connect to 0.0.0.0", true},
		{[]string{"listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=PLAINTEXT://k:9092", open}, "PLAINTEXT 0.0.0.0:9092 k:9092", false},
		{[]string{"listeners=PLAINTEXT://10.1.2.3:9092"}, "PLAINTEXT://10.1.2.3:9092 would be open to the network without authentication; want a loopback address, or firn.listeners.allow.insecure=true", true},
		{[]string{"listeners=PLAINTEXT://:9092"}, "would be open to the network", true},
		{[]string{"listeners=PLAINTEXT://my-host:9092"}, "would be open to the network", true},
		{[]string{"listeners=PLAINTEXT://[::ffff:127.0.0.1]:9092"}, "PLAINTEXT [::ffff:127.0.0.1]:9092 [::ffff:127.0.0.1]:9092", false},
		{[]string{"admin.listeners=http://0.0.0.0:9190"}, "admin.listeners=http://0.0.0.0:9190 (from --set): http://0.0.0.0:9190 would be open", true},
		{[]string{"listeners=SSL://127.0.0.1:9092"}, "SSL://127.0.0.1:9092 needs a certificate: set ssl.keystore.location", true},
		{[]string{"listeners=SSL://127.0.0.1:9092", "ssl.keystore.location=/k.pem"}, "SSL 127.0.0.1:9092 127.0.0.1:9092", false},
		{[]string{"listeners=IN://127.0.0.1:1,EX://127.0.0.1:2", "listener.security.protocol.map=IN:PLAINTEXT,EX:SSL", "ssl.keystore.certificate.chain=c", "ssl.keystore.key=k"}, "IN 127.0.0.1:1 127.0.0.1:1, EX 127.0.0.1:2 127.0.0.1:2", false},
		{[]string{"listeners=SSL://my-host:9092", "ssl.keystore.location=/k.pem"}, "would be open to the network without authentication", true},
		{[]string{"listeners=SSL://my-host:9092", "ssl.keystore.location=/k.pem", "ssl.client.auth=required", "ssl.truststore.location=/t.pem"}, "SSL my-host:9092 my-host:9092", false},
		{[]string{"ssl.keystore.location=/k.pem", "ssl.keystore.key=k", "ssl.keystore.certificate.chain=c"}, "want either a file or ssl.keystore.certificate.chain", true},
		{[]string{"ssl.keystore.key=k"}, "want ssl.keystore.key beside it", true},
		{[]string{"ssl.truststore.location=/t.pem", "ssl.truststore.certificates=c"}, "want either a file or ssl.truststore.certificates", true},
		{[]string{"ssl.client.auth=requested"}, "set ssl.truststore.location", true},
		{[]string{"ssl.client.auth=always"}, "want none, requested or required", true},
		{[]string{"ssl.keystore.type=JKS"}, "want PEM", true},
		{[]string{"ssl.enabled.protocols=TLSv1.1"}, "\"TLSv1.1\" is neither", true},
		{[]string{"ssl.enabled.protocols="}, "want TLSv1.2, TLSv1.3 or both", true},
		{[]string{"listeners=IN://127.0.0.1:9092", "listener.security.protocol.map=IN:SASL_SSL"}, "uses SASL_SSL", true},
		{[]string{"listeners=IN://127.0.0.1:9092"}, "listener IN has no protocol", true},
		{[]string{"listeners=IN://127.0.0.1:9092", "listener.security.protocol.map=IN:PLAINTEXT,EX"}, `"EX" is none`, true},
		{[]string{"listeners=IN://127.0.0.1:1,EX://127.0.0.1:2", "listener.security.protocol.map=IN:PLAINTEXT,EX:PLAINTEXT"}, "IN 127.0.0.1:1 127.0.0.1:1, EX 127.0.0.1:2 127.0.0.1:2", false},
		{[]string{"listeners=IN://127.0.0.1:1,EX://127.0.0.1:1", "listener.security.protocol.map=IN:PLAINTEXT,EX:PLAINTEXT"}, "clashes with IN://127.0.0.1:1", true},
		{[]string{"listeners=PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"}, "clashes with", true},
		{[]string{"listeners=127.0.0.1:9092"}, "want NAME://host:port", true},
		{[]string{"listeners=PLAINTEXT://127.0.0.1"}, "want NAME://host:port", true},
		{[]string{"listeners=PLAINTEXT://127.0.0.1:70000"}, `port "70000"`, true},
		{[]string{"listeners="}, "want at least one listener", true},
		{[]string{"controller.listener.names=plaintext"}, "want at least one listener", true},
		{[]string{"advertised.listeners=OTHER://h:1"}, "want names of listeners, OTHER is none", true},
		{[]string{"advertised.listeners=PLAINTEXT://:9092"}, "want a host that clients can connect to", true},
		{[]string{"admin.listeners=https://127.0.0.1:9190"}, "want http://host:port or none", true},
		{[]string{"admin.listeners=127.0.0.1:9190"}, "want http://host:port or none", true},
	} {
		got, _, err := Load(LoadOptions{Flags: c.flags, Hostname: hostname})
		if c.fault {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v: %v, want the one fault %q", c.flags, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", c.flags, err)
			continue
		}
		var all []string
		for _, l := range got.Network.Listeners {
			all = append(all, l.Name+" "+l.Bind.String()+" "+l.Advertised.String())
		}
		if strings.Join(all, ", ") != c.want {
			t.Errorf("%v: %v, want %s", c.flags, all, c.want)
		}
	}
	nameless := func() (string, error) { return "", errors.New("no name") }
	if _, _, err := Load(LoadOptions{Flags: []string{"listeners=PLAINTEXT://:9092", open}, Hostname: nameless}); err == nil || !strings.Contains(err.Error(), "set advertised.listeners") {
		t.Errorf("without a name: %v", err)
	}
}

func TestAdminOff(t *testing.T) {
	if got := load(t, LoadOptions{Flags: []string{"admin.listeners=none"}}).Operation.AdminListeners; got != nil {
		t.Errorf("%v", got)
	}
}
