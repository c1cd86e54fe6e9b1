// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"firn/config"
)

// serverTLS is what the settings say of listeners with TLS.
func serverTLS(t config.TLS) (*tls.Config, error) {
	certificate, err := keystore(t)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13}
	if !t.V12 {
		c.MinVersion = tls.VersionTLS13
	}
	if !t.V13 {
		c.MaxVersion = tls.VersionTLS12
	}
	switch t.ClientAuth {
	case config.ClientAuthRequested:
		c.ClientAuth = tls.VerifyClientCertIfGiven
	case config.ClientAuthRequired:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if t.ClientAuth != config.ClientAuthNone {
		if c.ClientCAs, err = truststore(t); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// keystore reads the certificate chain and its key.
func keystore(t config.TLS) (tls.Certificate, error) {
	if t.KeystorePath == "" {
		certificate, err := tls.X509KeyPair([]byte(t.CertificateChain), []byte(t.Key))
		if err != nil {
			return certificate, fmt.Errorf("ssl.keystore.certificate.chain and ssl.keystore.key: %w", err)
		}
		return certificate, nil
	}
	text, err := os.ReadFile(t.KeystorePath)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("ssl.keystore.location: %w", err)
	}
	// Either may stand before the other: what is not looked for is passed over.
	certificate, err := tls.X509KeyPair(text, text)
	if err != nil && encrypted(text) {
		err = errors.New("the private key is encrypted, which is not supported")
	}
	if err != nil {
		return certificate, fmt.Errorf("ssl.keystore.location %s: %w", t.KeystorePath, err)
	}
	return certificate, nil
}

func encrypted(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" {
			return true
		}
	}
	return false
}

// truststore reads the certificates that sign those of clients.
func truststore(t config.TLS) (*x509.CertPool, error) {
	if t.TruststorePath == "" {
		return certPool("ssl.truststore.certificates", []byte(t.TrustedCertificates))
	}
	text, err := os.ReadFile(t.TruststorePath)
	if err != nil {
		return nil, fmt.Errorf("ssl.truststore.location: %w", err)
	}
	return certPool("ssl.truststore.location "+t.TruststorePath, text)
}

func certPool(where string, text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: there is no certificate in it", where)
	}
	return pool, nil
}

// tlsFlags are the flags of clients for TLS.
type tlsFlags struct {
	on         bool
	ca         string
	cert       string
	serverName string
}

func (f *tlsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "tls", false, "speak TLS to the brokers")
	flags.StringVar(&f.ca, "tls-ca", "", "`file` of certificates in PEM that vouch for the brokers' (default: those of the system)")
	flags.StringVar(&f.cert, "tls-cert", "", "`file` with our certificate and its key in PEM, for brokers that ask for one")
	flags.StringVar(&f.serverName, "tls-server-name", "", "`name` that the brokers' certificates are for (default: the host connected to)")
}

// config is nil without --tls; the other flags imply it.
func (f *tlsFlags) config() (*tls.Config, error) {
	if !f.on && f.ca == "" && f.cert == "" && f.serverName == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		if c.RootCAs, err = certPool("--tls-ca "+f.ca, text); err != nil {
			return nil, err
		}
	}
	if f.cert != "" {
		certificate, err := tls.LoadX509KeyPair(f.cert, f.cert)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s: %w", f.cert, err)
		}
		c.Certificates = []tls.Certificate{certificate}
	}
	return c, nil
}
