package doctor

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"colophon/internal/cli"
	"colophon/internal/datadir"
)

// checkAddress checks that, if other machines can reach the server, it requires credentials and
// encrypts the connection.
func checkAddress(d *deployment) []Finding {
	config := d.settings.config
	host, _, err := net.SplitHostPort(config.ListenAddress)
	if err != nil {
		return finding(VerdictNotChecked, "", "--listen is not an address of the form host:port")
	}
	required, err := d.authentication()
	if err != nil {
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	}
	makeToken := "create a token (see colophon token create --help)" // #nosec G101 -- a command
	local, encrypted := cli.IsLoopback(host), config.TLSCertFile != ""
	switch {
	case local && config.Insecure:
		return finding(VerdictAdvice, "omit --insecure", "only this machine can reach %s; --insecure is not needed for this address, and would let the server start without credentials on any other address", config.ListenAddress)
	case local && required:
		return finding(VerdictOK, "", "only this machine can reach %s, and the server requires credentials", config.ListenAddress)
	case local:
		return finding(VerdictOK, "", "only this machine can reach %s, but every user of this machine can read, write, and erase everything", config.ListenAddress)
	case !required && !config.Insecure:
		return finding(VerdictWrong, makeToken, "other machines can reach %s, but the server requires no credentials, so serve refuses to start", config.ListenAddress)
	case !required:
		return finding(VerdictWrong, makeToken+", and omit --insecure", "anyone who can reach %s can write, read, and erase everything", config.ListenAddress)
	case config.Insecure:
		return finding(VerdictAdvice, "omit --insecure", "other machines can reach %s with credentials; --insecure lets the server start even if the tokens were lost", config.ListenAddress)
	case !encrypted && len(config.TrustedProxies) == 0:
		return finding(VerdictWrong, "set --tls-cert and --tls-key, or put a proxy with TLS in front of the server and name the proxy with --trusted-proxies", "other machines can reach %s, and tokens are sent unencrypted", config.ListenAddress)
	case !encrypted:
		return finding(VerdictAdvice, "make sure that only the proxy can reach this address, and that the proxy uses TLS", "other machines can reach %s, and tokens are sent unencrypted from the proxy to the server", config.ListenAddress)
	}
	return finding(VerdictOK, "", "other machines can reach %s with credentials, over TLS", config.ListenAddress)
}

// authentication reports whether the settings and the data folder make the server require
// credentials.
func (d *deployment) authentication() (required bool, err error) {
	if d.settings.config.AccessFile != "" {
		return true, nil
	}
	if len(d.shared.tokens) > 0 {
		return true, nil
	}
	_, err = os.Lstat(datadir.TokenFolder(d.data())) // the server requires credentials if this folder exists
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// checkProxies checks that the server trusts X-Forwarded-For only from proxies.
func checkProxies(d *deployment) []Finding {
	for _, network := range d.settings.config.TrustedProxies {
		if ones, _ := network.Mask.Size(); ones == 0 {
			return finding(VerdictWrong, "name only the addresses of the proxies with --trusted-proxies", "the server trusts X-Forwarded-For from every address, so a client can claim any number of addresses and evade every limit")
		}
	}
	if c := d.settings.config; len(c.TrustedProxies) == 0 && len(c.AllowedHosts) > 0 {
		if host, _, err := net.SplitHostPort(c.ListenAddress); err == nil && cli.IsLoopback(host) {
			return finding(VerdictAdvice, "set --trusted-proxies 127.0.0.1 if a proxy on this machine forwards requests", "only this machine can reach %s, but --allow-host names other hosts; all requests forwarded by a proxy appear to come from one address", c.ListenAddress)
		}
	}
	return finding(VerdictOK, "", "the server trusts X-Forwarded-For from %s", cli.FormatCount(uint64(len(d.settings.config.TrustedProxies)), "network"))
}

// checkRates checks that the rate of requests from other machines is limited.
func checkRates(d *deployment) []Finding {
	config := d.settings.config
	host, _, _ := net.SplitHostPort(config.ListenAddress)
	switch {
	case config.RequestRate > 0 || config.AddressRate > 0:
		return finding(VerdictOK, "", "a rate limit is set")
	case cli.IsLoopback(host):
		return finding(VerdictOK, "", "no rate limit is set, and only this machine can reach %s", config.ListenAddress)
	}
	return finding(VerdictAdvice, "set --rate-limit and --address-rate-limit", "other machines can reach %s, and no rate limit is set", config.ListenAddress)
}

// certificateExpiresSoon is the remaining validity below which the doctor reports a certificate.
const certificateExpiresSoon = 21 * 24 * time.Hour

// checkCertificate checks that the certificate matches its key, that it does not expire soon, that
// it is valid for the host on which the server listens, and that only the owner can read the key.
func checkCertificate(d *deployment) []Finding {
	config := d.settings.config
	if config.TLSCertFile == "" || config.TLSKeyFile == "" {
		return finding(VerdictOK, "", "none: the server uses http")
	}
	pair, err := tls.LoadX509KeyPair(config.TLSCertFile, config.TLSKeyFile)
	if errors.Is(err, fs.ErrPermission) {
		return finding(VerdictNotChecked, "run the doctor as the user that runs the server", "%v", err)
	}
	if err != nil {
		return finding(VerdictWrong, "provide a certificate and the matching key in these files", "%s, %s: %v", config.TLSCertFile, config.TLSKeyFile, err)
	}
	var list []Finding
	if info, err := os.Stat(config.TLSKeyFile); err == nil && hasModes && info.Mode().Perm()&0o007 != 0 {
		list = append(list, finding(VerdictWrong, "run: chmod o= "+config.TLSKeyFile, "every user of this machine can read %s", config.TLSKeyFile)...)
	}
	leaf := pair.Leaf
	renew := "renew the certificate; the server loads the new files without a restart"
	switch left := leaf.NotAfter.Sub(d.now); {
	case left <= 0:
		list = append(list, finding(VerdictWrong, renew, "the certificate expired on %s", leaf.NotAfter.Format(time.DateOnly))...)
	case d.now.Before(leaf.NotBefore):
		list = append(list, finding(VerdictWrong, "wait until then, or correct the clock", "the certificate is not valid before %s", leaf.NotBefore.Format(time.DateTime))...)
	case left < certificateExpiresSoon:
		list = append(list, finding(VerdictAdvice, renew, "the certificate expires on %s", leaf.NotAfter.Format(time.DateOnly))...)
	}
	host, _, _ := net.SplitHostPort(config.ListenAddress)
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) && leaf.VerifyHostname(host) != nil {
		list = append(list, finding(VerdictAdvice, "make sure that clients use a name in the certificate", "the certificate is not valid for the server's listen address %s, only for %s", host, certificateNames(leaf.DNSNames, leaf.IPAddresses))...)
	}
	return orOK(list, "valid for %s until %s", certificateNames(leaf.DNSNames, leaf.IPAddresses), leaf.NotAfter.Format(time.DateOnly))
}

// certificateNames returns the names and addresses of a certificate, for use in a sentence.
func certificateNames(names []string, addresses []net.IP) string {
	all := append([]string{}, names...)
	for _, a := range addresses {
		all = append(all, a.String())
	}
	if len(all) == 0 {
		return "no name"
	}
	return strings.Join(all, ", ")
}

// checkMetricsAddress checks that only this machine can reach the metrics and profiles.
func checkMetricsAddress(d *deployment) []Finding {
	config := d.settings.config
	if config.MetricsListenAddress == "" {
		return finding(VerdictOK, "", "none: /metrics is served at the server's address, and requires the scope metrics if the server requires credentials")
	}
	host, _, err := net.SplitHostPort(config.MetricsListenAddress)
	switch {
	case err != nil:
		return finding(VerdictWrong, "use the form host:port, such as 127.0.0.1:9091", "--metrics-listen: %v", err)
	case cli.IsLoopback(host):
		return finding(VerdictOK, "", "only this machine can reach %s", config.MetricsListenAddress)
	case config.ServePprof:
		return finding(VerdictWrong, "omit --pprof, or listen on 127.0.0.1", "anyone who can reach %s sees the names and metrics of all ledgers, and the memory and stacks of the process", config.MetricsListenAddress)
	}
	return finding(VerdictAdvice, "make sure that only Prometheus can reach this address, or listen on 127.0.0.1", "anyone who can reach %s sees the names and metrics of all ledgers", config.MetricsListenAddress)
}
