package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"colophon/internal/cli"
	"colophon/internal/doctor"
	"colophon/internal/server"
)

const doctorHelp = `Check a deployment, and print what to change. doctor checks the data folder, its keys and
tokens, the disk that it is on, the limits and the clock of the machine, and the server's
address and certificate. If a server answers, doctor also checks the server and its
ledgers.

doctor checks the settings that you give it by flags, environment variables and a
configuration file. Give it the same settings as serve. It takes some values, such as the
limit of open files and GOMEMLIMIT, from the server's metrics. Without metrics it checks
its own limits, so run it on the server's machine as the server's user.

doctor changes nothing, apart from a small file that it writes and removes to time the
disk. It works whether or not a server uses the folder, and prints no secrets. Some files
are readable only by the owner of the folder; to check these, run doctor as the owner or
root.

doctor sends the server the same token as other commands do. A token with the scopes read
and metrics on all ledgers lets it check everything. With fewer scopes, the report names
what was not checked. doctor also fetches the discovery documents of the issuers in
--access-file.

Exit codes: 0 nothing is wrong, though there may be advice, 1 something is wrong or doctor
was interrupted, 2 bad arguments, 3 with --strict, nothing is wrong but something was not
checked.`

func newDoctor(c *cli.Console) *cobra.Command {
	settings := server.Config{}.WithDefaults()
	o := doctor.Options{Version: buildVersion()}
	var strict, asJSON bool
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check a deployment, and print what to change",
		Long:  doctorHelp,
		Example: `  colophon doctor --data ./data
  colophon doctor --config /etc/colophon.yaml --server https://ledger.example.org --json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.Flags = command.Flags()
			if c.EnvOr("COLOPHON_SERVER", "") == "" && !command.Flags().Changed("server") {
				o.Server.URL = ""
			}
			report, err := doctor.Examine(command.Context(), c, o)
			if err != nil {
				return err
			}
			if err := printReport(c, report, asJSON); err != nil {
				return err
			}
			return doctorOutcome(report, strict)
		},
	}
	flags := command.Flags()
	settings.Bind(flags)
	flags.StringVar(&o.ConfigFile, "config", c.EnvOr("COLOPHON_CONFIG", ""), "YAML `file` with settings of serve, or COLOPHON_CONFIG")
	o.Server.Bind(c, flags)
	url := flags.Lookup("server")
	url.Usage, url.DefValue = url.Usage+"; default from the server's settings", ""
	flags.BoolVar(&strict, "strict", false, "fail with exit code 3 if something could not be checked")
	flags.BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return command
}

// doctorOutcome returns an error with the exit code if something is wrong or, if strict is set, if
// something was not checked. Otherwise it returns nil.
func doctorOutcome(report doctor.Report, strict bool) error {
	switch {
	case report.Verdict == doctor.VerdictWrong:
		return &cli.ExitError{Code: cli.ExitFailed}
	case strict && !report.AllChecked():
		return cli.ExitErrorf(cli.ExitUnchecked, "some checks were skipped and --strict is set; see the report for the reasons")
	}
	return nil
}

// printReport prints the report as JSON, or as a table that fits the width of the terminal.
func printReport(c *cli.Console, report doctor.Report, asJSON bool) error {
	if asJSON {
		return cli.PrintAsJSON(c, report)
	}
	_, err := fmt.Fprint(c.Out, report.FormatTable(terminalWidth(c.Out)))
	return err
}

// terminalWidth returns the number of characters per line, or 0 if out is not a terminal.
func terminalWidth(out io.Writer) int {
	file, ok := cli.UnfilteredWriter(out).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
