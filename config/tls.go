// SPDX-License-Identifier: Apache-2.0

package config

import "strconv"

// TLS is what listeners with TLS show and ask for. Keys and certificates are
// given as a file or as PEM text, never as both; none of them has been looked at.
type TLS struct {
	KeystorePath          string
	CertificateChain, Key string
	TruststorePath        string
	TrustedCertificates   string
	ClientAuth            ClientAuth
	// V12 and V13 say which versions are spoken, at least one of them.
	V12, V13 bool
}

// ClientAuth says whether clients show certificates.
type ClientAuth uint8

// The values of ssl.client.auth, in the order of their strictness.
const (
	ClientAuthNone ClientAuth = iota
	ClientAuthRequested
	ClientAuthRequired
)

// hasKeystore says whether a certificate and its key are set.
func hasKeystore(c *Config) bool {
	return c.text("ssl.keystore.location") != "" ||
		c.text("ssl.keystore.certificate.chain") != "" && c.text("ssl.keystore.key") != ""
}

// tls reads the settings that begin with ssl.
func (l *loader) tls(c *Config) TLS {
	t := TLS{
		KeystorePath:     c.text("ssl.keystore.location"),
		CertificateChain: c.text("ssl.keystore.certificate.chain"), Key: c.text("ssl.keystore.key"),
		TruststorePath: c.text("ssl.truststore.location"), TrustedCertificates: c.text("ssl.truststore.certificates"),
	}
	switch c.text("ssl.client.auth") {
	case "requested":
		t.ClientAuth = ClientAuthRequested
	case "required":
		t.ClientAuth = ClientAuthRequired
	}
	if t.KeystorePath != "" && (t.CertificateChain != "" || t.Key != "") {
		l.blame(c, "ssl.keystore.location", "want either a file or ssl.keystore.certificate.chain and ssl.keystore.key, not both")
	}
	if (t.CertificateChain == "") != (t.Key == "") {
		l.blame(c, "ssl.keystore.certificate.chain", "want ssl.keystore.key beside it")
	}
	if t.TruststorePath != "" && t.TrustedCertificates != "" {
		l.blame(c, "ssl.truststore.location", "want either a file or ssl.truststore.certificates, not both")
	}
	if t.ClientAuth != ClientAuthNone && t.TruststorePath == "" && t.TrustedCertificates == "" {
		l.blame(c, "ssl.client.auth", "clients are to show certificates: set ssl.truststore.location or ssl.truststore.certificates")
	}
	for _, version := range c.list("ssl.enabled.protocols") {
		switch version {
		case "TLSv1.2":
			t.V12 = true
		case "TLSv1.3":
			t.V13 = true
		default:
			l.blame(c, "ssl.enabled.protocols", "want TLSv1.2, TLSv1.3 or both, "+strconv.Quote(version)+" is neither")
		}
	}
	if len(c.list("ssl.enabled.protocols")) == 0 {
		l.blame(c, "ssl.enabled.protocols", "want TLSv1.2, TLSv1.3 or both")
	}
	return t
}
