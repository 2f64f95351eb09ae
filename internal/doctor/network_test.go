package doctor

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
	with := func(listen string, insecure, token, encrypted bool) func(*deployment) {
		return func(d *deployment) {
			c := &d.settings.config
			c.Listen, c.Insecure = listen, insecure
			if encrypted {
				c.TLSCert, c.TLSKey = "c.pem", "k.pem"
			}
			if token {
				makeToken(t, d.data(), testNow, "robot", access.ScopeRead, "default", time.Time{})
			}
		}
	}
	const local, everywhere = "127.0.0.1:8080", "0.0.0.0:8080"
	runCheckCases(t, checkAddress, []checkCase{
		{"local", with(local, false, false, false), OK, "every user of this machine can read, write, and erase everything"},
		{"local, TLS", with(local, false, false, true), OK, "every user of this machine can read, write, and erase everything"},
		{"local, token", with(local, false, true, false), OK, "with credentials"},
		{"local, token, TLS", with(local, false, true, true), OK, "with credentials"},
		{"local, insecure", with(local, true, false, false), Advice, "only this machine"},
		{"local, insecure, TLS", with(local, true, false, true), Advice, "only this machine"},
		{"local, insecure, token", with(local, true, true, false), Advice, "only this machine"},
		{"local, insecure, token, TLS", with(local, true, true, true), Advice, "only this machine"},
		{"open", with(everywhere, false, false, false), Wrong, "refuses to start"},
		{"open, TLS", with(everywhere, false, false, true), Wrong, "refuses to start"},
		{"open, token", with(everywhere, false, true, false), Wrong, "tokens are sent unencrypted"},
		{"open, token, behind a proxy", func(d *deployment) {
			with(everywhere, false, true, false)(d)
			require.NoError(t, d.settings.config.TrustedProxies.UnmarshalText([]byte("10.0.0.1")))
		}, Advice, "tokens are sent unencrypted from the proxy to the server"},
		{"open, token, TLS", with(everywhere, false, true, true), OK, "over TLS"},
		{"open, insecure", with(everywhere, true, false, false), Wrong, "can write, read, and erase everything"},
		{"open, insecure, TLS", with(everywhere, true, false, true), Wrong, "can write, read, and erase everything"},
		{"open, insecure, token", with(everywhere, true, true, false), Advice, "even if the tokens were lost"},
		{"open, insecure, token, TLS", with(everywhere, true, true, true), Advice, "even if the tokens were lost"},
		{"nonsense", with("nonsense", false, false, false), NotChecked, "not an address"},
		{"open, issuer, TLS", func(d *deployment) {
			with(everywhere, false, false, true)(d)
			d.settings.config.AccessFile = "access.yaml"
		}, OK, "over TLS"},
	})
}

func TestCheckRates(t *testing.T) {
	with := func(listen string, rate, addressRate float64) func(*deployment) {
		return withConfig(func(c *server.Config) { c.Listen, c.RequestRate, c.AddressRate = listen, rate, addressRate })
	}
	runCheckCases(t, checkRates, []checkCase{
		{"local", with("127.0.0.1:8080", 0, 0), OK, "only this machine"},
		{"open", with("0.0.0.0:8080", 0, 0), Advice, "no rate"},
		{"open, of an identity", with("0.0.0.0:8080", 10, 0), OK, "a rate limit is set"},
		{"open, of an address", with("0.0.0.0:8080", 0, 10), OK, "a rate limit is set"},
	})
}

func TestCheckMetricsAddress(t *testing.T) {
	with := func(listen string, pprof bool) func(*deployment) {
		return withConfig(func(c *server.Config) { c.MetricsListen, c.Pprof = listen, pprof })
	}
	runCheckCases(t, checkMetricsAddress, []checkCase{
		{"none", with("", false), OK, "at the server's address"},
		{"local", with("127.0.0.1:9091", true), OK, "only this machine"},
		{"open", with("0.0.0.0:9091", false), Advice, "anyone who can reach"},
		{"open profiles", with("0.0.0.0:9091", true), Wrong, "memory and stacks"},
		{"nonsense", with("9091", false), Wrong, "--metrics-listen"},
	})
}

func TestCheckProxies(t *testing.T) {
	with := func(list string) func(*deployment) {
		return withConfig(func(c *server.Config) { require.NoError(t, c.TrustedProxies.UnmarshalText([]byte(list))) })
	}
	runCheckCases(t, checkProxies, []checkCase{
		{"none", with(""), OK, "0 networks"},
		{"one", with("10.0.0.0/8"), OK, "1 network"},
		{"everybody", with("10.0.0.0/8,0.0.0.0/0"), Wrong, "from every address"},
		{"everybody of IPv6", with("::/0"), Wrong, "from every address"},
		{"a proxy on this machine", withConfig(func(c *server.Config) { c.AllowHost = server.HostNames{"ledger.example.org"} }), Advice, "appear to come from one address"},
		{"a proxy on this machine, trusted", func(d *deployment) {
			with("127.0.0.0/8")(d)
			d.settings.config.AllowHost = server.HostNames{"ledger.example.org"}
		}, OK, "1 network"},
		{"a name of its own", withConfig(func(c *server.Config) {
			c.Listen, c.AllowHost = "0.0.0.0:8080", server.HostNames{"ledger.example.org"}
		}), OK, "0 networks"},
	})
}

// writeCertificate creates a self-signed certificate. It returns the paths of the certificate and
// its key.
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
	year := testNow.AddDate(1, 0, 0)
	certificate, key := writeCertificate(t, name, testNow, year)
	with := func(certificate, key, host string) func(*deployment) {
		return withConfig(func(c *server.Config) { c.TLSCert, c.TLSKey, c.Listen = certificate, key, host+":443" })
	}
	until := func(from, until time.Time) func(*deployment) {
		certificate, key := writeCertificate(t, name, from, until)
		return with(certificate, key, "")
	}
	_, otherKey := writeCertificate(t, name, testNow, year)
	runCheckCases(t, checkCertificate, []checkCase{
		{"none", func(*deployment) {}, OK, "uses http"},
		{"good", with(certificate, key, name), OK, "valid for ledger.example.org until 2027-03-01"},
		{"good for all addresses", with(certificate, key, "0.0.0.0"), OK, "valid for ledger.example.org"},
		{"another name", with(certificate, key, "other.example.org"), Advice, "is not valid for the server's listen address other.example.org"},
		{"another key", with(certificate, otherKey, name), Wrong, "private key does not match"},
		{"no file", with("missing.pem", key, name), Wrong, "missing.pem"},
		{"ends soon", until(testNow, testNow.AddDate(0, 0, 20)), Advice, "expires on 2026-03-21"},
		{"ended", until(testNow.AddDate(-1, 0, 0), testNow.AddDate(0, 0, -1)), Wrong, "expired on 2026-02-28"},
		{"not yet", until(testNow.AddDate(0, 0, 1), year), Wrong, "is not valid before"},
	})
	if hasModes {
		require.NoError(t, os.Chmod(key, 0o644))
		requireFinding(t, checkCertificate(newDeployment(t, with(certificate, key, name))), Wrong, "every user of this machine can read")
	}
}
