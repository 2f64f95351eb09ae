package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/server"
)

const doctorHelp = `Look at a deployment and say what to change: the data folder, its keys and tokens,
the disk under it, the limits and the clock of the machine, the address, its
certificate, and, where a server answers, the server and its ledgers.

It judges the settings that it is given, as serve is: by flags, variables and a
configuration file. Give it those of the server. What the server shows in its metrics,
such as its open files and its GOMEMLIMIT, is judged as the server has it; else the
limits of this command are judged, so run it where the server runs, and as its user.

It changes nothing (to time the disk it writes a small file and removes it), works
whether a server runs on the folder or not, and prints no secret. What only the owner
of the folder may see is checked when he runs it, or root does.

The server is asked with the token that other commands use. Scopes read and metrics
on all ledgers show everything; what others show is checked, and the rest named.

The issuers that --access-file names are asked where their keys are.

Exit codes: 0 nothing is wrong, though there may be advice, 1 something is wrong,
2 bad arguments, 3 with --strict, nothing is wrong but something was not checked.`

// doctorOptions is the command line of doctor beside the settings of serve.
type doctorOptions struct {
	file string // of configuration
	ask  remote.Options
	json bool
	// strict makes it a failure that something was not checked.
	strict bool
}

func newDoctor(c *cli.Console) *cobra.Command {
	flagged := server.Config{}.WithDefaults()
	var o doctorOptions
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check a deployment, and say what to change",
		Long:  doctorHelp,
		Example: `  colophon doctor --data ./data
  colophon doctor --config /etc/colophon.yaml --server https://ledger.example.org --json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			d := &doctor{Console: c, now: time.Now()}
			d.settings = readSettings(o.file, c.Env, command.Flags())
			d.machine = lookAtMachine()
			d.disk = lookAtDisk(d.data())
			if c.Environment("COLOPHON_SERVER", "") == "" && !command.Flags().Changed("server") {
				o.ask.URL, d.own = d.settings.server(), true
			}
			if err := d.ask(command.Context(), o.ask); err != nil {
				return err
			}
			d.askIssuers(command.Context())
			report := newDoctorReport(d.judge())
			if err := report.print(c, o.json); err != nil {
				return err
			}
			return report.outcome(o.strict)
		},
	}
	flagged.Bind(command.Flags())
	command.Flags().StringVar(&o.file, "config", c.Environment("COLOPHON_CONFIG", ""), "YAML `file` with settings of serve, or COLOPHON_CONFIG")
	o.ask.Bind(c, command.Flags())
	server := command.Flags().Lookup("server")
	server.Usage, server.DefValue = server.Usage+"; default where the settings have it listen", ""
	command.Flags().BoolVar(&o.strict, "strict", false, "fail, with exit code 3, where something could not be checked")
	command.Flags().BoolVar(&o.json, "json", false, "print the findings as JSON")
	return command
}

// doctor is what is known of a deployment. It is gathered first; the checks then
// judge it, and read small files of the data folder.
type doctor struct {
	*cli.Console
	now      time.Time
	settings settings
	machine  machine    // that this is run on
	disk     fileSystem // under the data folder
	server   serverAnswers
	own      bool             // the server that is asked is where the settings have it listen
	issuers  map[string]error // by URL, why an issuer of the access file does not answer; nil: it does
}

// data is the data folder.
func (d *doctor) data() string { return d.settings.config.Data }

// ask asks the server, if one is named. The error is one of the command line.
func (d *doctor) ask(ctx context.Context, options remote.Options) error {
	if options.URL == "" {
		return nil
	}
	asked, err := newClient(d.Console, options)
	if err != nil {
		return err
	}
	if d.own && options.CAFile == "" {
		d.settings.trustOwn(asked)
	}
	metrics := asked
	if base := server.URLOf("http", d.settings.config.MetricsListen); base != "" {
		metrics = &httpClient{base: base, http: &http.Client{}}
	}
	d.server = ask(ctx, asked, metrics)
	return nil
}

// doctorChecks are all checks, in the order in which they are shown.
func doctorChecks() []doctorCheck {
	return []doctorCheck{
		{"settings", checkSettings},
		{"data folder", checkFolder},
		{"owner", checkOwner},
		{"signing keys", checkKeys},
		{"copy of the keys", checkKeyCopy},
		{"tokens", checkTokens},
		{"access file", checkAccessFile},
		{"issuers", checkIssuers},
		{"address", checkAddress},
		{"proxies", checkProxies},
		{"rates", checkRates},
		{"certificate", checkCertificate},
		{"metrics address", checkMetricsAddress},
		{"file system", checkFileSystem},
		{"free space", checkSpace},
		{"sync", checkSync},
		{"open files", checkFileLimit},
		{"memory", checkMemory},
		{"clock", checkClock},
		{"server", checkServer},
		{"authentication", checkAuthentication},
		{"ledgers", checkLedgerKeys},
		{"log", checkLog},
		{"public logs", checkPublic},
		{"index", checkIndex},
		{"erasure", checkErasure},
	}
}

// judge runs all checks.
func (d *doctor) judge() []diagnosis {
	var all []diagnosis
	for _, check := range doctorChecks() {
		for _, found := range check.run(d) {
			found.Check = check.name
			all = append(all, found)
		}
	}
	return all
}
