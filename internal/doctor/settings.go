package doctor

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

// settings holds the settings that serve would run with.
type settings struct {
	config server.Config // the settings that could be read
	file   string        // the configuration file; empty if there is none
	named  bool          // the user specified the data folder
	err    error         // why serve would reject the settings
	// unknownVariables holds the names of environment variables that look like settings but are
	// not.
	unknownVariables []string
}

// readSettings resolves the settings as serve does. If the configuration file cannot be read, it
// uses only flags and environment variables.
func readSettings(file string, env func(string) (string, bool), given *pflag.FlagSet) settings {
	s := settings{file: file, unknownVariables: findUnknownVariables(os.Environ()), named: given.Changed("data")}
	s.config, s.err = server.ResolveConfig(file, env, given)
	if s.err != nil && file != "" {
		if config, err := server.ResolveConfig("", env, given); err == nil {
			s.config = config
		}
	}
	s.named = s.named || s.config.DataDir != (server.Config{}).WithDefaults().DataDir
	return s
}

// These environment variables, without the prefix COLOPHON_, are not server settings. Other
// commands and the clients' libraries read otherVariables. serviceVariables are prefixes of the
// variables that Kubernetes sets for a service named colophon.
var (
	otherVariables   = []string{"CONFIG", "SERVER", "LEDGER", "TOKEN", "TOKEN_FILE", "CA_FILE", "KEY", "ENDPOINT_KEY", "SPOOL", "PORT"}
	serviceVariables = []string{"SERVICE_", "PORT_"}
)

// findUnknownVariables returns the names of COLOPHON_ variables that nothing reads.
// environment holds NAME=VALUE pairs.
func findUnknownVariables(environment []string) []string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&server.Config{}).Bind(flags)
	var names []string
	for _, pair := range environment {
		rest, ours := strings.CutPrefix(pair, "COLOPHON_")
		name, _, _ := strings.Cut(rest, "=")
		if !ours || strings.HasPrefix(name, "SIGNING_KEY_") || slices.Contains(otherVariables, name) || hasAnyPrefix(name, serviceVariables) ||
			flags.Lookup(strings.ReplaceAll(strings.ToLower(name), "_", "-")) != nil {
			continue
		}
		names = append(names, "COLOPHON_"+name)
	}
	slices.Sort(names)
	return names
}

// serverURL returns the URL at which this machine can reach a server with these settings. It
// returns "" if the settings do not specify a port.
func (s settings) serverURL() string {
	if s.config.TLSCertFile != "" {
		return server.ListenURL("https", s.config.ListenAddress)
	}
	return server.ListenURL("http", s.config.ListenAddress)
}

// checkSettings checks that serve accepts the settings, that it knows all COLOPHON_ environment
// variables, and that only the owner can change the configuration file.
func checkSettings(d *deployment) []Finding {
	s := d.settings
	var list []Finding
	if s.err != nil {
		list = append(list, finding(VerdictWrong, "correct the settings; serve does not start with them", "%v", s.err)...)
	}
	if len(s.unknownVariables) > 0 {
		list = append(list, finding(VerdictAdvice, "correct the names, or remove the variables", "unknown environment variables: %s", strings.Join(s.unknownVariables, ", "))...)
	}
	from := "flags and variables"
	if s.file != "" {
		list = append(list, checkWritable(s.file)...)
		from = s.file + ", " + from
	}
	return orOK(list, "%s: serve accepts these settings", from)
}

// checkWritable returns a finding if users other than the file's owner can change the file.
func checkWritable(path string) []Finding {
	info, err := os.Stat(path)
	switch {
	case err != nil || !hasModes:
		return nil // the check that reads the file reports any error
	case info.Mode().Perm()&0o002 != 0:
		return finding(VerdictWrong, "run: chmod o-w "+path, "every user of this machine can write to %s", path)
	case info.Mode().Perm()&0o020 != 0:
		return finding(VerdictAdvice, "run: chmod g-w "+path, "members of the file's group can write to %s", path)
	}
	return nil
}

// hasModes reports whether file modes describe permissions on this system.
const hasModes = runtime.GOOS != "windows"

// checkAccessFile checks that the access file can be read, and that it contains rules for client
// certificates if and only if --tls-client-ca is set.
func checkAccessFile(d *deployment) []Finding {
	config := d.settings.config
	if config.AccessFile == "" {
		if config.TLSClientCAFile != "" {
			return finding(VerdictWrong, "write mtls rules into a file and name it with --access-file", "client certificates are verified, but no rule grants them access")
		}
		return finding(VerdictOK, "", "none: the server accepts API tokens only")
	}
	rules, err := access.ReadRules(config.AccessFile)
	if errors.Is(err, fs.ErrPermission) {
		return finding(VerdictNotChecked, "run the doctor as the user that runs the server", "%v", err)
	}
	if err != nil {
		return finding(VerdictWrong, "correct the access file; serve does not start with an invalid one", "%s: %v", config.AccessFile, err)
	}
	list := checkWritable(config.AccessFile)
	switch {
	case len(rules.MTLS) > 0 && config.TLSClientCAFile == "":
		list = append(list, finding(VerdictWrong, "set --tls-client-ca, or remove the rules", "%s has %s for client certificates, but --tls-client-ca is not set",
			config.AccessFile, cli.FormatCount(uint64(len(rules.MTLS)), "rule"))...)
	case len(rules.MTLS) == 0 && config.TLSClientCAFile != "":
		list = append(list, finding(VerdictWrong, "add rules for client certificates, or omit --tls-client-ca", "--tls-client-ca is set, but %s has no rules for client certificates", config.AccessFile)...)
	}
	if len(rules.OIDC)+len(rules.MTLS) == 0 {
		list = append(list, finding(VerdictWrong, "add rules to the file, or omit --access-file; serve does not start with an access file that has no rules", "%s has no rules", config.AccessFile)...)
	}
	return orOK(list, "%s: %s, %s for client certificates", config.AccessFile,
		cli.FormatCount(uint64(len(rules.OIDC)), "issuer"), cli.FormatCount(uint64(len(rules.MTLS)), "rule"))
}
