package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/server"
)

func TestCheckAddress(t *testing.T) {
	with := func(listen string, insecure, token, encrypted bool) func(*doctor) {
		return func(d *doctor) {
			c := &d.settings.config
			c.Listen, c.Insecure = listen, insecure
			if encrypted {
				c.TLSCert, c.TLSKey = "c.pem", "k.pem"
			}
			if token {
				makeToken(t, d.data(), doctorNow, "robot", access.Read, "default", time.Time{})
			}
		}
	}
	const local, everywhere = "127.0.0.1:8080", "0.0.0.0:8080"
	runCheckCases(t, checkAddress, []checkCase{
		{"local", with(local, false, false, false), fine, "every user of it may do everything"},
		{"local, TLS", with(local, false, false, true), fine, "every user of it may do everything"},
		{"local, token", with(local, false, true, false), fine, "with credentials"},
		{"local, token, TLS", with(local, false, true, true), fine, "with credentials"},
		{"local, insecure", with(local, true, false, false), advice, "only this machine"},
		{"local, insecure, TLS", with(local, true, false, true), advice, "only this machine"},
		{"local, insecure, token", with(local, true, true, false), advice, "only this machine"},
		{"local, insecure, token, TLS", with(local, true, true, true), advice, "only this machine"},
		{"open", with(everywhere, false, false, false), wrong, "refuses to start"},
		{"open, TLS", with(everywhere, false, false, true), wrong, "refuses to start"},
		{"open, token", with(everywhere, false, true, false), wrong, "tokens travel unencrypted"},
		{"open, token, behind a proxy", func(d *doctor) {
			with(everywhere, false, true, false)(d)
			require.NoError(t, d.settings.config.TrustedProxies.UnmarshalText([]byte("10.0.0.1")))
		}, advice, "from the proxy on"},
		{"open, token, TLS", with(everywhere, false, true, true), fine, "over TLS"},
		{"open, insecure", with(everywhere, true, false, false), wrong, "may write, read and erase everything"},
		{"open, insecure, TLS", with(everywhere, true, false, true), wrong, "may write, read and erase everything"},
		{"open, insecure, token", with(everywhere, true, true, false), advice, "even if the tokens were lost"},
		{"open, insecure, token, TLS", with(everywhere, true, true, true), advice, "even if the tokens were lost"},
		{"nonsense", with("nonsense", false, false, false), unchecked, "no address"},
		{"open, issuer, TLS", func(d *doctor) {
			with(everywhere, false, false, true)(d)
			d.settings.config.AccessFile = "access.yaml"
		}, fine, "over TLS"},
	})
}

func TestCheckRates(t *testing.T) {
	with := func(listen string, rate, addressRate float64) func(*doctor) {
		return configured(func(c *server.Config) { c.Listen, c.RateLimit, c.AddressRateLimit = listen, rate, addressRate })
	}
	runCheckCases(t, checkRates, []checkCase{
		{"local", with("127.0.0.1:8080", 0, 0), fine, "only this machine"},
		{"open", with("0.0.0.0:8080", 0, 0), advice, "no rate"},
		{"open, of an identity", with("0.0.0.0:8080", 10, 0), fine, "limited"},
		{"open, of an address", with("0.0.0.0:8080", 0, 10), fine, "limited"},
	})
}

func TestCheckMetricsAddress(t *testing.T) {
	with := func(listen string, pprof bool) func(*doctor) {
		return configured(func(c *server.Config) { c.MetricsListen, c.Pprof = listen, pprof })
	}
	runCheckCases(t, checkMetricsAddress, []checkCase{
		{"none", with("", false), fine, "none of their own"},
		{"local", with("127.0.0.1:9091", true), fine, "only this machine"},
		{"open", with("0.0.0.0:9091", false), advice, "whoever reaches"},
		{"open profiles", with("0.0.0.0:9091", true), wrong, "memory and stacks"},
		{"nonsense", with("9091", false), wrong, "--metrics-listen"},
	})
}

func TestCheckProxies(t *testing.T) {
	with := func(list string) func(*doctor) {
		return configured(func(c *server.Config) { require.NoError(t, c.TrustedProxies.UnmarshalText([]byte(list))) })
	}
	runCheckCases(t, checkProxies, []checkCase{
		{"none", with(""), fine, "0 networks"},
		{"one", with("10.0.0.0/8"), fine, "1 network"},
		{"everybody", with("10.0.0.0/8,0.0.0.0/0"), wrong, "believed of everybody"},
		{"everybody of IPv6", with("::/0"), wrong, "believed of everybody"},
		{"a proxy on this machine", configured(func(c *server.Config) { c.AllowHost = server.HostNames{"ledger.example.org"} }), advice, "all count as those of one address"},
		{"a proxy on this machine, trusted", func(d *doctor) {
			with("127.0.0.0/8")(d)
			d.settings.config.AllowHost = server.HostNames{"ledger.example.org"}
		}, fine, "1 network"},
		{"a name of its own", configured(func(c *server.Config) {
			c.Listen, c.AllowHost = "0.0.0.0:8080", server.HostNames{"ledger.example.org"}
		}), fine, "0 networks"},
	})
}

// writeCertificate makes a certificate that signs itself, and returns the files of it
// and its key.
func writeCertificate(t testing.TB, name string, from, until time.Time) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: from, NotAfter: until}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	return certificate, key
}

func TestCheckCertificate(t *testing.T) {
	const name = "ledger.example.org"
	year := doctorNow.AddDate(1, 0, 0)
	certificate, key := writeCertificate(t, name, doctorNow, year)
	with := func(certificate, key, host string) func(*doctor) {
		return configured(func(c *server.Config) { c.TLSCert, c.TLSKey, c.Listen = certificate, key, host+":443" })
	}
	until := func(from, until time.Time) func(*doctor) {
		certificate, key := writeCertificate(t, name, from, until)
		return with(certificate, key, "")
	}
	_, otherKey := writeCertificate(t, name, doctorNow, year)
	runCheckCases(t, checkCertificate, []checkCase{
		{"none", func(*doctor) {}, fine, "speaks http"},
		{"good", with(certificate, key, name), fine, "holds for ledger.example.org until 2027-03-01"},
		{"good for all addresses", with(certificate, key, "0.0.0.0"), fine, "holds for ledger.example.org"},
		{"another name", with(certificate, key, "other.example.org"), advice, "does not hold for other.example.org"},
		{"another key", with(certificate, otherKey, name), wrong, "private key does not match"},
		{"no file", with("missing.pem", key, name), wrong, "missing.pem"},
		{"ends soon", until(doctorNow, doctorNow.AddDate(0, 0, 20)), advice, "ends on 2026-03-21"},
		{"ended", until(doctorNow.AddDate(-1, 0, 0), doctorNow.AddDate(0, 0, -1)), wrong, "ended on 2026-02-28"},
		{"not yet", until(doctorNow.AddDate(0, 0, 1), year), wrong, "does not hold before"},
	})
	if hasModes {
		require.NoError(t, os.Chmod(key, 0o644))
		requireVerdict(t, checkCertificate(someDoctor(t, with(certificate, key, name))), wrong, "everybody on this machine can read")
	}
}
