package main

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/server"
)

// settings are what serve would run with.
type settings struct {
	config server.Config // as far as it can be read
	file   string        // of configuration; empty: none
	named  bool          // the data folder was named, be it by the name that it has unnamed
	err    error         // why serve would refuse them
	// strangers are the names of variables that look like settings and are none.
	strangers []string
}

// readSettings resolves the settings as serve does. A file that cannot be read leaves
// the other sources.
func readSettings(file string, env func(string) (string, bool), given *pflag.FlagSet) settings {
	s := settings{file: file, strangers: strangers(os.Environ()), named: given.Changed("data")}
	s.config, s.err = server.Resolve(file, env, given)
	if s.err != nil && file != "" {
		if config, err := server.Resolve("", env, given); err == nil {
			s.config = config
		}
	}
	s.named = s.named || s.config.Data != (server.Config{}).WithDefaults().Data
	return s
}

// Variables that set nothing about a server: those that other commands read, and
// beginnings of those that Kubernetes sets for a service named colophon.
var (
	otherVariables   = []string{"CONFIG", "SERVER", "TOKEN", "TOKEN_FILE", "CA_FILE", "KEY", "PORT"}
	serviceVariables = []string{"SERVICE_", "PORT_"}
)

// strangers are the names of COLOPHON_ variables, of NAME=VALUE pairs, that nothing
// reads.
func strangers(environment []string) []string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&server.Config{}).Bind(flags)
	var names []string
	for _, pair := range environment {
		rest, ours := strings.CutPrefix(pair, "COLOPHON_")
		name, _, _ := strings.Cut(rest, "=")
		if !ours || strings.HasPrefix(name, "SIGNING_KEY_") || slices.Contains(otherVariables, name) || isAnyOf(name, serviceVariables) ||
			flags.Lookup(strings.ReplaceAll(strings.ToLower(name), "_", "-")) != nil {
			continue
		}
		names = append(names, "COLOPHON_"+name)
	}
	slices.Sort(names)
	return names
}

// server is the URL at which the settings have a server listen, as seen from this
// machine; empty if they do not say.
func (s settings) server() string {
	if s.config.TLSCert != "" {
		return server.URLOf("https", s.config.Listen)
	}
	return server.URLOf("http", s.config.Listen)
}

// checkSettings: serve would take them, all variables are known, and nobody else can
// change the file.
func checkSettings(d *doctor) []diagnosis {
	s := d.settings
	var list []diagnosis
	if s.err != nil {
		list = append(list, found(wrong, "correct it; serve does not start with it", "%v", s.err)...)
	}
	if len(s.strangers) > 0 {
		list = append(list, found(advice, "correct the name or remove it: serve does not read it", "%s sets nothing", strings.Join(s.strangers, ", "))...)
	}
	from := "flags and variables"
	if s.file != "" {
		list = append(list, changeable(s.file)...)
		from = s.file + ", " + from
	}
	return orFine(list, "%s are as serve takes them", from)
}

// changeable finds that others than its owner can change a file.
func changeable(path string) []diagnosis {
	info, err := os.Stat(path)
	switch {
	case err != nil || !hasModes:
		return nil // whoever reads the file says so
	case info.Mode().Perm()&0o002 != 0:
		return found(wrong, "run: chmod o-w "+path, "everybody on this machine can change %s", path)
	case info.Mode().Perm()&0o020 != 0:
		return found(advice, "run: chmod g-w "+path, "a group can change %s", path)
	}
	return nil
}

// hasModes says whether permissions are in the mode of a file.
const hasModes = runtime.GOOS != "windows"

// checkAccessFile: the rules of issuers and client certificates can be read, and go
// with the authority that signs certificates.
func checkAccessFile(d *doctor) []diagnosis {
	config := d.settings.config
	if config.AccessFile == "" {
		if config.TLSClientCA != "" {
			return found(wrong, "write mtls rules into a file and name it with --access-file", "client certificates are verified, but none may do anything")
		}
		return found(fine, "", "none: API tokens are all there is")
	}
	rules, err := access.ReadRules(config.AccessFile)
	if errors.Is(err, fs.ErrPermission) {
		return found(unchecked, "run this as the user of the server", "%v", err)
	}
	if err != nil {
		return found(wrong, "correct it; serve does not start with it", "%s: %v", config.AccessFile, err)
	}
	list := changeable(config.AccessFile)
	if (len(rules.MTLS) > 0) != (config.TLSClientCA != "") {
		list = append(list, found(wrong, "set both, or neither", "%s has %s for client certificates, and --tls-client-ca is %q",
			config.AccessFile, cli.Counted(uint64(len(rules.MTLS)), "rule"), config.TLSClientCA)...)
	}
	if len(rules.OIDC)+len(rules.MTLS) == 0 {
		list = append(list, found(wrong, "write rules into it, or leave --access-file out; serve does not start with it", "there is no rule in %s", config.AccessFile)...)
	}
	return orFine(list, "%s: %s, %s for client certificates", config.AccessFile,
		cli.Counted(uint64(len(rules.OIDC)), "issuer"), cli.Counted(uint64(len(rules.MTLS)), "rule"))
}
