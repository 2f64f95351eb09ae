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

const doctorHelp = `Look at a deployment and say what to change: the data folder, its keys and tokens,
the disk under it, the limits and the clock of the machine, the address, its
certificate, and, if a server answers, the server and its ledgers.

It judges the settings that it is given, as serve is: by flags, variables and a
configuration file. Give it those of the server. What the server shows in its metrics,
such as its open files and its GOMEMLIMIT, is judged as the server has it; else the
limits of this command are judged, so run it where the server runs, and as its user.

It changes nothing (to time the disk it writes a small file and removes it), works
whether a server runs on the folder or not, and prints no secret. What only the owner
of the folder can read is checked if the owner or root runs it.

The server is asked with the token that other commands use. Scopes read and metrics
on all ledgers show everything; with others, the report names what was not checked.

The issuers that --access-file names are asked for their discovery documents.

Exit codes: 0 nothing is wrong, though there may be advice, 1 something is wrong,
2 bad arguments, 3 with --strict, nothing is wrong but something was not checked.`

func newDoctor(c *cli.Console) *cobra.Command {
	settings := server.Config{}.WithDefaults()
	o := doctor.Options{Version: buildVersion()}
	var strict, asJSON bool
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check a deployment, and say what to change",
		Long:  doctorHelp,
		Example: `  colophon doctor --data ./data
  colophon doctor --config /etc/colophon.yaml --server https://ledger.example.org --json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.Flags = command.Flags()
			if c.Environment("COLOPHON_SERVER", "") == "" && !command.Flags().Changed("server") {
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
	flags.StringVar(&o.ConfigFile, "config", c.Environment("COLOPHON_CONFIG", ""), "YAML `file` with settings of serve, or COLOPHON_CONFIG")
	o.Server.Bind(c, flags)
	url := flags.Lookup("server")
	url.Usage, url.DefValue = url.Usage+"; default where the settings have it listen", ""
	flags.BoolVar(&strict, "strict", false, "fail, with exit code 3, if something could not be checked")
	flags.BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return command
}

// doctorOutcome is how the command ends: with an error if something is wrong or, if strict, was not
// checked.
func doctorOutcome(report doctor.Report, strict bool) error {
	switch {
	case report.Verdict == doctor.Wrong:
		return &cli.ExitError{Code: cli.ExitFailed}
	case strict && !report.Complete():
		return cli.Exitf(cli.ExitUnchecked, "not everything could be checked (--strict)")
	}
	return nil
}

// printReport prints a table that fits the terminal, or JSON.
func printReport(c *cli.Console, report doctor.Report, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(c, report)
	}
	_, err := fmt.Fprint(c.Out, report.Text(terminalWidth(c.Out)))
	return err
}

// terminalWidth is the width of a terminal in characters; 0 if out is not a terminal.
func terminalWidth(out io.Writer) int {
	file, ok := cli.Unfiltered(out).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
