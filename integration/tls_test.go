// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"firn/internal/testutil"
)

// authority signs certificates for one test.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	path string // its certificate
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.path = a.write("ca.pem", &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) write(name string, blocks ...*pem.Block) string {
	var text bytes.Buffer
	for _, b := range blocks {
		if err := pem.Encode(&text, b); err != nil {
			a.t.Fatal(err)
		}
	}
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue writes a certificate for 127.0.0.1 with its key into one file.
func (a *authority) issue(name string) string {
	key := a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", &pem.Block{Type: "PRIVATE KEY", Bytes: secret}, &pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A broker that speaks TLS serves kcat (librdkafka) and our own client (franz-go),
// hot and from the object store, as one without does; a client that shows no
// certificate where one is asked for gets nothing.
func TestTLSListener(t *testing.T) {
	a := newAuthority(t)
	server, client := a.issue("server"), a.issue("client")
	for _, auth := range []string{"none", "required"} {
		t.Run("client certificates "+auth, func(t *testing.T) {
			addr := fmt.Sprintf("127.0.0.1:%d", testutil.FreePort(t))
			b := testutil.NewBroker(t, map[string]string{
				"ssl.keystore.location": server,
				"ssl.client.auth":       auth, "ssl.truststore.location": a.path,
				"tier.store": "dir", "tier.dir.path": t.TempDir(),
			})
			b.Set("listeners", "PLAINTEXT://"+b.Addr+",SSL://"+addr)
			b.Start()
			createTopic(t, b, "secure", 1, "segment.bytes=1048576", "local.retention.ms=1")
			args := []string{"-X", "security.protocol=ssl", "-X", "ssl.ca.location=" + a.path}
			ours := []string{"-b", addr, "--tls-ca", a.path}
			if auth == "required" {
				args = append(args, "-X", "ssl.certificate.location="+client, "-X", "ssl.key.location="+client)
				ours = append(ours, "--tls-cert", client)
			}
			var want bytes.Buffer
			for i := range 60_000 {
				fmt.Fprintf(&want, "record %d of a topic that nobody reads on the way\n", i)
			}
			var got bytes.Buffer
			kcat := testutil.NewKcat(t, addr)
			kcat.Produce(t, "secure", bytes.NewReader(want.Bytes()), args...)
			if kcat.Consume(t, "secure", &got, append(args, "-o", "beginning")...); !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("kcat read %d bytes of %d", got.Len(), want.Len())
			}
			r := testutil.RunFirn(t, append([]string{"topic", "consume", "secure", "-o", "beginning", "-e"}, ours...)...)
			if r.Code != 0 || !bytes.Equal(r.Stdout, want.Bytes()) {
				t.Errorf("firn topic consume: exit code %d, %d bytes of %d\n%s", r.Code, len(r.Stdout), want.Len(), r.Stderr)
			}
			if r := testutil.RunFirn(t, "topic", "list", "-b", addr, "--tls", "--timeout", "5s"); r.Code != 3 {
				t.Errorf("a client that does not trust the broker: exit code %d\n%s", r.Code, r.Stderr)
			}
			if r := testutil.RunFirn(t, "topic", "list", "-b", addr, "--tls-ca", a.path, "--timeout", "5s"); (r.Code == 0) != (auth == "none") {
				t.Errorf("a client without a certificate: exit code %d\n%s", r.Code, r.Stderr)
			}
		})
	}
}
