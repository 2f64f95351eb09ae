package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/server"
	"colophon/internal/testing/authority"
)

func TestCheckIssuers(t *testing.T) {
	var issuer string
	issuerServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q}`, issuer)
		case "/other/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q}`, issuer)
		case "/text/.well-known/openid-configuration":
			_, _ = io.WriteString(w, "hello")
		default:
			http.Redirect(w, r, "/.well-known/openid-configuration", http.StatusFound)
		}
	}))
	defer issuerServer.Close()
	issuer = issuerServer.URL
	judge := func(url string) []diagnosis {
		path := filepath.Join(t.TempDir(), "access.yaml")
		text := "oidc:\n  - issuer: " + url + "\n    audience: a\n    rules:\n      - {claim: groups, value: w, ledgers: [default], scopes: [write]}\n"
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		d := someDoctor(t, configured(func(c *server.Config) { c.AccessFile = path }))
		d.askIssuers(t.Context())
		return checkIssuers(d)
	}
	requireVerdict(t, judge(issuerServer.URL), fine, "1 issuer: "+issuerServer.URL)
	requireVerdict(t, judge(issuerServer.URL+"/other"), wrong, "is of the issuer")
	requireVerdict(t, judge(issuerServer.URL+"/text"), wrong, "is no discovery document")
	requireVerdict(t, judge(issuerServer.URL+"/moved"), wrong, "302")
	issuerServer.Close()
	requireVerdict(t, judge(issuerServer.URL), wrong, "refused")
	requireVerdict(t, checkIssuers(someDoctor(t)), fine, "none")
}

// Nobody has to name the authority of the certificate that the settings have.
func TestDoctorBelievesTheServersOwnCertificate(t *testing.T) {
	s := authority.New(t)
	config := server.Config{Data: filepath.Join(s.Dir, "data")}.WithDefaults()
	config.TLSCert, config.TLSKey = s.Server("server")
	pair, err := tls.LoadX509KeyPair(config.TLSCert, config.TLSKey)
	require.NoError(t, err)
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	other.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	other.StartTLS()
	defer other.Close()
	config.Listen = other.Listener.Addr().String()
	d := someDoctor(t, func(d *doctor) { d.settings.config, d.own = config, true })
	options := remote.Options{URL: d.settings.server()}
	require.NoError(t, d.ask(t.Context(), options))
	require.ErrorContains(t, d.server.err, "no colophon server", "the handshake succeeds")

	d.own = false
	require.NoError(t, d.ask(t.Context(), options))
	require.ErrorContains(t, d.server.err, "certificate")
	list := checkServer(d)
	requireVerdict(t, list, unchecked, "certificate")
	require.Contains(t, list[0].Do, "--ca-file")
}

func TestDoctorIsStrictWhereItIsAskedToBe(t *testing.T) {
	for _, c := range []struct {
		grades          []grade
		lenient, strict int
	}{
		{[]grade{fine, advice}, cli.ExitOK, cli.ExitOK},
		{[]grade{fine, unchecked}, cli.ExitOK, cli.ExitUnchecked},
		{[]grade{unchecked, wrong}, cli.ExitFailed, cli.ExitFailed},
	} {
		var list []diagnosis
		for _, g := range c.grades {
			list = append(list, diagnosis{Verdict: g})
		}
		for strict, want := range map[bool]int{false: c.lenient, true: c.strict} {
			exit := &cli.ExitError{}
			err := newDoctorReport(list).outcome(strict)
			require.Equal(t, want != cli.ExitOK, errors.As(err, &exit))
			require.Equal(t, want, exit.Code)
		}
	}
}
