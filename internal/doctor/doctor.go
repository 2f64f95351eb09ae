// Package doctor looks at a data folder, the machine, and a running server, and says what
// to mend.
package doctor

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"colophon/internal/cli"
	"colophon/internal/remote"
)

// Options say which deployment is examined.
type Options struct {
	// Flags are the flags of serve, as far as the command line sets them.
	Flags *pflag.FlagSet
	// ConfigFile is the configuration file of serve; empty: none.
	ConfigFile string
	// Server is the server to query. Without a URL, it is the one at the address in the settings.
	Server remote.Options
	// Version is that of this program.
	Version string
}

// Examine runs all checks on a deployment. To time the disk it writes a small file and
// removes it; it changes nothing else. An error is one of the command line; what is wrong
// with the deployment is in the report.
func Examine(ctx context.Context, console *cli.Console, o Options) (Report, error) {
	d := &deployment{console: console, version: o.Version, now: time.Now(), machine: inspectMachine()}
	d.settings = readSettings(o.ConfigFile, console.Env, o.Flags)
	d.disk = inspectDisk(d.data())
	if err := d.askServer(ctx, o.Server); err != nil {
		return Report{}, err
	}
	d.askIssuers(ctx)
	d.askStore(ctx)
	return newReport(d.runChecks()), nil
}

// deployment is what is known of a deployment. It is gathered first. The checks then judge
// it, and read small files of the data folder.
type deployment struct {
	console  *cli.Console
	version  string // of this program
	now      time.Time
	settings settings
	machine  machine
	disk     fileSystem // of the database
	server   serverAnswers
	own      bool  // the queried server is the one at the address in the settings
	store    error // why the database of the log cannot be used; nil: it can, or is in the data folder
	shared   sharedTokens
	issuers  map[string]error // by URL: why an issuer of the access file does not answer; nil: it does
}

// data is the data folder.
func (d *deployment) data() string { return d.settings.config.Data }

// check looks at one thing. It returns at least one finding.
type check struct {
	name string
	run  func(*deployment) []Finding
}

// allChecks lists the checks in the order of the report.
func allChecks() []check {
	return []check{
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
		{"store", checkStore},
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

// runChecks runs all checks.
func (d *deployment) runChecks() []Finding {
	var all []Finding
	for _, c := range allChecks() {
		for _, f := range c.run(d) {
			f.Check = c.name
			all = append(all, f)
		}
	}
	return all
}
