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
			c.ListenAddress, c.Insecure = listen, insecure
			if encrypted {
				c.TLSCertFile, c.TLSKeyFile = "c.pem", "k.pem"
			}
			if token {
				makeToken(t, d.data(), testNow, "robot", access.ScopeRead, "default", time.Time{})
			}
		}
	}
	const local, everywhere = "127.0.0.1:8080", "0.0.0.0:8080"
	runCheckCases(t, checkAddress, []checkCase{
		{"local", with(local, false, false, false), VerdictOK, "every user of this machine can read, write, and erase everything"},
		{"local, TLS", with(local, false, false, true), VerdictOK, "every user of this machine can read, write, and erase everything"},
		{"local, token", with(local, false, true, false), VerdictOK, "the server requires credentials"},
		{"local, token, TLS", with(local, false, true, true), VerdictOK, "the server requires credentials"},
		{"local, insecure", with(local, true, false, false), VerdictAdvice, "only this machine"},
		{"local, insecure, TLS", with(local, true, false, true), VerdictAdvice, "only this machine"},
		{"local, insecure, token", with(local, true, true, false), VerdictAdvice, "only this machine"},
		{"local, insecure, token, TLS", with(local, true, true, true), VerdictAdvice, "only this machine"},
		{"open", with(everywhere, false, false, false), VerdictWrong, "refuses to start"},
		{"open, TLS", with(everywhere, false, false, true), VerdictWrong, "refuses to start"},
		{"open, token", with(everywhere, false, true, false), VerdictWrong, "tokens are sent unencrypted"},
		{"open, token, behind a proxy", func(d *deployment) {
			with(everywhere, false, true, false)(d)
			require.NoError(t, d.settings.config.TrustedProxies.UnmarshalText([]byte("10.0.0.1")))
		}, VerdictAdvice, "tokens are sent unencrypted from the proxy to the server"},
		{"open, token, TLS", with(everywhere, false, true, true), VerdictOK, "over TLS"},
		{"open, insecure", with(everywhere, true, false, false), VerdictWrong, "can write, read, and erase everything"},
		{"open, insecure, TLS", with(everywhere, true, false, true), VerdictWrong, "can write, read, and erase everything"},
		{"open, insecure, token", with(everywhere, true, true, false), VerdictAdvice, "even if the tokens were lost"},
		{"open, insecure, token, TLS", with(everywhere, true, true, true), VerdictAdvice, "even if the tokens were lost"},
		{"nonsense", with("nonsense", false, false, false), VerdictNotChecked, "not an address"},
		{"open, issuer, TLS", func(d *deployment) {
			with(everywhere, false, false, true)(d)
			d.settings.config.AccessFile = "access.yaml"
		}, VerdictOK, "over TLS"},
	})
}

func TestCheckRates(t *testing.T) {
	with := func(listen string, rate, addressRate float64) func(*deployment) {
		return withConfig(func(c *server.Config) { c.ListenAddress, c.RequestRate, c.AddressRate = listen, rate, addressRate })
	}
	runCheckCases(t, checkRates, []checkCase{
		{"local", with("127.0.0.1:8080", 0, 0), VerdictOK, "only this machine"},
		{"open", with("0.0.0.0:8080", 0, 0), VerdictAdvice, "no rate"},
		{"open, of an identity", with("0.0.0.0:8080", 10, 0), VerdictOK, "a rate limit is set"},
		{"open, of an address", with("0.0.0.0:8080", 0, 10), VerdictOK, "a rate limit is set"},
	})
}

func TestCheckMetricsAddress(t *testing.T) {
	with := func(listen string, pprof bool) func(*deployment) {
		return withConfig(func(c *server.Config) { c.MetricsListenAddress, c.ServePprof = listen, pprof })
	}
	runCheckCases(t, checkMetricsAddress, []checkCase{
		{"none", with("", false), VerdictOK, "at the server's address"},
		{"local", with("127.0.0.1:9091", true), VerdictOK, "only this machine"},
		{"open", with("0.0.0.0:9091", false), VerdictAdvice, "anyone who can reach"},
		{"open profiles", with("0.0.0.0:9091", true), VerdictWrong, "memory and stacks"},
		{"nonsense", with("9091", false), VerdictWrong, "--metrics-listen"},
	})
}

func TestCheckProxies(t *testing.T) {
	with := func(list string) func(*deployment) {
		return withConfig(func(c *server.Config) { require.NoError(t, c.TrustedProxies.UnmarshalText([]byte(list))) })
	}
	runCheckCases(t, checkProxies, []checkCase{
		{"none", with(""), VerdictOK, "0 networks"},
		{"one", with("10.0.0.0/8"), VerdictOK, "1 network"},
		{"everybody", with("10.0.0.0/8,0.0.0.0/0"), VerdictWrong, "from every address"},
		{"everybody of IPv6", with("::/0"), VerdictWrong, "from every address"},
		{"a proxy on this machine", withConfig(func(c *server.Config) { c.AllowedHosts = server.HostNames{"ledger.example.org"} }), VerdictAdvice, "appear to come from one address"},
		{"a proxy on this machine, trusted", func(d *deployment) {
			with("127.0.0.0/8")(d)
			d.settings.config.AllowedHosts = server.HostNames{"ledger.example.org"}
		}, VerdictOK, "1 network"},
		{"a name of its own", withConfig(func(c *server.Config) {
			c.ListenAddress, c.AllowedHosts = "0.0.0.0:8080", server.HostNames{"ledger.example.org"}
		}), VerdictOK, "0 networks"},
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
		return withConfig(func(c *server.Config) { c.TLSCertFile, c.TLSKeyFile, c.ListenAddress = certificate, key, host+":443" })
	}
	until := func(from, until time.Time) func(*deployment) {
		certificate, key := writeCertificate(t, name, from, until)
		return with(certificate, key, "")
	}
	_, otherKey := writeCertificate(t, name, testNow, year)
	runCheckCases(t, checkCertificate, []checkCase{
		{"none", func(*deployment) {}, VerdictOK, "uses http"},
		{"good", with(certificate, key, name), VerdictOK, "valid for ledger.example.org until 2027-03-01"},
		{"good for all addresses", with(certificate, key, "0.0.0.0"), VerdictOK, "valid for ledger.example.org"},
		{"another name", with(certificate, key, "other.example.org"), VerdictAdvice, "is not valid for the server's listen address other.example.org"},
		{"another key", with(certificate, otherKey, name), VerdictWrong, "private key does not match"},
		{"no file", with("missing.pem", key, name), VerdictWrong, "missing.pem"},
		{"ends soon", until(testNow, testNow.AddDate(0, 0, 20)), VerdictAdvice, "expires on 2026-03-21"},
		{"ended", until(testNow.AddDate(-1, 0, 0), testNow.AddDate(0, 0, -1)), VerdictWrong, "expired on 2026-02-28"},
		{"not yet", until(testNow.AddDate(0, 0, 1), year), VerdictWrong, "is not valid before"},
	})
	if hasModes {
		require.NoError(t, os.Chmod(key, 0o644))
		requireFinding(t, checkCertificate(newDeployment(t, with(certificate, key, name))), VerdictWrong, "every user of this machine can read")
	}
}
