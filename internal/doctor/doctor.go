// Package doctor examines a data folder, the machine, and a running server, and says what
// should be fixed.
package doctor

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"colophon/internal/cli"
	"colophon/internal/remote"
)

// Options specifies the deployment to examine.
type Options struct {
	// Flags holds the flags of the serve command that were set on the command line.
	Flags *pflag.FlagSet
	// ConfigFile is the path of the configuration file of the serve command, or empty if there is
	// none.
	ConfigFile string
	// Server is the server to query. If it has no URL, the server at the address in the
	// settings is queried.
	Server remote.Options
	// Version is the version of this program.
	Version string
}

// Examine runs all checks on a deployment. It writes and removes a small file to time the disk and
// changes nothing else. An error means that the command line is wrong or that ctx is done; problems
// with the deployment itself are in the report.
func Examine(ctx context.Context, console *cli.Console, o Options) (Report, error) {
	d := &deployment{console: console, version: o.Version, now: time.Now(), machine: inspectMachine()}
	d.settings = readSettings(o.ConfigFile, console.LookupEnv, o.Flags)
	d.disk = inspectDisk(d.data())
	if err := d.askServer(ctx, o.Server); err != nil {
		return Report{}, err
	}
	d.askIssuers(ctx)
	d.askStore(ctx)
	d.askCopy(ctx)
	if ctx.Err() != nil { // what was asked last has no true answer
		return Report{}, cli.ExitErrorf(cli.ExitFailed, "interrupted; nothing was concluded")
	}
	return newReport(d.runChecks()), nil
}

// deployment holds everything that is known about a deployment. It is filled in before the checks
// run, and the checks read nothing else except small files in the data folder.
type deployment struct {
	console  *cli.Console
	version  string // version of this program
	now      time.Time
	settings settings
	machine  machine
	disk     fileSystem // file system of the database
	server   serverAnswers
	own      bool  // the queried server's address came from the settings
	store    error // why the log's PostgreSQL database cannot be used; nil if it can, or if there is none
	shared   sharedTokens
	// asynchronousStandbys is the number of the database's standbys for which no commit waits.
	asynchronousStandbys int
	copyErr              error            // why the followed copy cannot be used; nil if it can, or if the server follows none
	issuers              map[string]error // result of querying each issuer in the access file, keyed by URL; nil means success
}

func (d *deployment) data() string { return d.settings.config.DataDir }

// check is a named check of a deployment. run returns at least one finding.
type check struct {
	name string
	run  func(*deployment) []Finding
}

// allChecks returns all checks in report order.
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
		{"copy", checkCopy},
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

// runChecks runs all checks and returns their findings in report order.
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
