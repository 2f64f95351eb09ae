package main

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
	"colophon/internal/server"
)

// checkAddress: who reaches the server has to say who he is, and nobody on the way
// reads along.
func checkAddress(d *doctor) []diagnosis {
	config := d.settings.config
	host, _, err := net.SplitHostPort(config.Listen)
	if err != nil {
		return found(unchecked, "", "--listen is no address")
	}
	required, err := d.authentication()
	if err != nil {
		return found(unchecked, asOwner, "%v", err)
	}
	makeToken := "make a token: colophon token create --help" // #nosec G101 -- a command
	local, encrypted := server.Loopback(host), config.TLSCert != ""
	switch {
	case local && config.Insecure:
		return found(advice, "leave --insecure out", "only this machine reaches %s, and --insecure would open any other address", config.Listen)
	case local && required:
		return found(fine, "", "only this machine reaches %s, with credentials", config.Listen)
	case local:
		return found(fine, "", "only this machine reaches %s; every user of it may do everything", config.Listen)
	case !required && !config.Insecure:
		return found(wrong, makeToken, "others reach %s, and the server asks for no credentials: serve refuses to start", config.Listen)
	case !required:
		return found(wrong, makeToken+", and leave --insecure out", "whoever reaches %s may write, read and erase everything", config.Listen)
	case config.Insecure:
		return found(advice, "leave --insecure out", "others reach %s with credentials; --insecure lets the server start even if the tokens were lost", config.Listen)
	case !encrypted && len(config.TrustedProxies) == 0:
		return found(wrong, "set --tls-cert and --tls-key; or have a proxy in front speak TLS, and name it with --trusted-proxies", "others reach %s, and tokens travel unencrypted", config.Listen)
	case !encrypted:
		return found(advice, "make sure that only the proxy reaches it, and that the proxy speaks TLS", "others reach %s, and from the proxy on tokens travel unencrypted", config.Listen)
	}
	return found(fine, "", "others reach %s with credentials, over TLS", config.Listen)
}

// authentication reports whether the settings and the data folder ask for credentials.
func (d *doctor) authentication() (required bool, err error) {
	if d.settings.config.AccessFile != "" {
		return true, nil
	}
	_, err = os.Lstat(datadir.Access(d.data())) // as the server looks
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// checkProxies: not everybody may say for whom he asks.
func checkProxies(d *doctor) []diagnosis {
	for _, network := range d.settings.config.TrustedProxies {
		if ones, _ := network.Mask.Size(); ones == 0 {
			return found(wrong, "name the addresses of the proxies alone with --trusted-proxies", "X-Forwarded-For is believed of everybody: whoever asks can have as many addresses as he likes, and no limit holds him")
		}
	}
	if c := d.settings.config; len(c.TrustedProxies) == 0 && len(c.AllowHost) > 0 {
		if host, _, err := net.SplitHostPort(c.Listen); err == nil && server.Loopback(host) {
			return found(advice, "set --trusted-proxies 127.0.0.1, if a proxy on this machine passes requests on", "only this machine reaches %s, but --allow-host has other names: requests that a proxy passes on all count as those of one address", c.Listen)
		}
	}
	return found(fine, "", "X-Forwarded-For is believed of %s", cli.Counted(uint64(len(d.settings.config.TrustedProxies)), "network"))
}

// checkRates: nobody who reaches the server can ask without end.
func checkRates(d *doctor) []diagnosis {
	config := d.settings.config
	host, _, _ := net.SplitHostPort(config.Listen)
	switch {
	case config.RateLimit > 0 || config.AddressRateLimit > 0:
		return found(fine, "", "requests are limited")
	case server.Loopback(host):
		return found(fine, "", "no rate is limited, and only this machine reaches %s", config.Listen)
	}
	return found(advice, "set --rate-limit, and --address-rate-limit", "others reach %s, and no rate of requests is limited", config.Listen)
}

// certificateEndsSoon is how long before its end a certificate is spoken of.
const certificateEndsSoon = 21 * 24 * time.Hour

// checkCertificate: it goes with its key, holds for some time, and for the name that
// the server listens on; and the key is not everybody's.
func checkCertificate(d *doctor) []diagnosis {
	config := d.settings.config
	if config.TLSCert == "" || config.TLSKey == "" {
		return found(fine, "", "none: the server speaks http")
	}
	pair, err := tls.LoadX509KeyPair(config.TLSCert, config.TLSKey)
	if errors.Is(err, fs.ErrPermission) {
		return found(unchecked, "run this as the user of the server", "%v", err)
	}
	if err != nil {
		return found(wrong, "put a certificate and its own key there", "%s, %s: %v", config.TLSCert, config.TLSKey, err)
	}
	var list []diagnosis
	if info, err := os.Stat(config.TLSKey); err == nil && hasModes && info.Mode().Perm()&0o007 != 0 {
		list = append(list, found(wrong, "run: chmod o= "+config.TLSKey, "everybody on this machine can read %s", config.TLSKey)...)
	}
	leaf := pair.Leaf
	renew := "renew it; the server takes the new files without a restart"
	switch left := leaf.NotAfter.Sub(d.now); {
	case left <= 0:
		list = append(list, found(wrong, renew, "it ended on %s", leaf.NotAfter.Format(time.DateOnly))...)
	case d.now.Before(leaf.NotBefore):
		list = append(list, found(wrong, "wait, or correct the clock", "it does not hold before %s", leaf.NotBefore.Format(time.DateTime))...)
	case left < certificateEndsSoon:
		list = append(list, found(advice, renew, "it ends on %s", leaf.NotAfter.Format(time.DateOnly))...)
	}
	host, _, _ := net.SplitHostPort(config.Listen)
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) && leaf.VerifyHostname(host) != nil {
		list = append(list, found(advice, "make sure that clients use a name that it has", "it does not hold for %s, where the server listens, but for %s", host, certificateNames(leaf.DNSNames, leaf.IPAddresses))...)
	}
	return orFine(list, "holds for %s until %s", certificateNames(leaf.DNSNames, leaf.IPAddresses), leaf.NotAfter.Format(time.DateOnly))
}

// certificateNames are the names of a certificate for a sentence.
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

// checkMetricsAddress: what shows the inside of the server is not shown to others.
func checkMetricsAddress(d *doctor) []diagnosis {
	config := d.settings.config
	if config.MetricsListen == "" {
		return found(fine, "", "none of their own: /metrics is at the server's address, and asks for the scope metrics where credentials are asked for")
	}
	host, _, err := net.SplitHostPort(config.MetricsListen)
	switch {
	case err != nil:
		return found(wrong, "write host:port, like 127.0.0.1:9091", "--metrics-listen: %v", err)
	case server.Loopback(host):
		return found(fine, "", "only this machine reaches %s", config.MetricsListen)
	case config.Pprof:
		return found(wrong, "leave --pprof out, or listen on 127.0.0.1", "whoever reaches %s sees the names and numbers of all ledgers, and the memory and stacks of the process", config.MetricsListen)
	}
	return found(advice, "let nobody but Prometheus reach it, or listen on 127.0.0.1", "whoever reaches %s sees the names and numbers of all ledgers", config.MetricsListen)
}
