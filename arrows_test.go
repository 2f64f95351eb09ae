package colophon_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everything, as an entry in allowedImports, lets a package import any package of this module.
const everything = "*"

// allowedImports maps each package of this module to the packages of this module that it may import. Every
// package must have an entry.
var allowedImports = map[string][]string{
	"":                                   {},
	"ledger/record/pyjson":               {},
	"ledger/record/rules":                {"ledger/record/pyjson"},
	"ledger/record":                      {"ledger/record/fields", "ledger/record/members", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules", "ledger/record/seqs", "ledger/record/strict"},
	"ledger/record/cpython":              {},
	"proofs":                             {"ledger/record/pyjson", "ledger/record/rules"},
	"proofs/audit":                       {"ledger/event", "ledger/record", "ledger/record/members", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules", "ledger/record/seqs", "proofs", "proofs/audit/recompute"},
	"proofs/pack":                        {"ledger/event", "ledger/record", "ledger/record/pyjson", "proofs", "proofs/audit/recompute"},
	"proofs/pack/browser":                {},
	"storage":                            {},
	"storage/memory":                     {"storage"},
	"internal/backup":                    {"api/access", "internal/cli", "internal/datadir", "internal/folderlock", "internal/migrate", "internal/remote", "internal/safefile", "ledger", "ledger/highwater", "ledger/keystore", "proofs", "storage", "storage/pebble"},
	"internal/datadir":                   {"api/admin", "internal/cli", "internal/folderlock", "internal/safefile", "ledger", "ledger/highwater", "ledger/keystore", "proofs", "proofs/audit", "storage", "storage/pebble"},
	"internal/server":                    {"api", "api/access", "api/admin", "api/limits", "internal/archive", "internal/cli", "internal/cluster", "internal/datadir", "internal/folderlock", "internal/indexfetch", "internal/logurl", "internal/memory", "internal/mirror", "internal/openfiles", "internal/publish", "internal/publish/bucket", "internal/remote", "internal/safefile", "internal/size", "internal/webhook", "ledger", "ledger/highwater", "ledger/index", "ledger/query", "proofs", "storage", "storage/pebble", "storage/postgres"},
	"internal/doctor":                    {"api/access", "client", "client/wire", "internal/cli", "internal/datadir", "internal/logurl", "internal/memory", "internal/openfiles", "internal/remote", "internal/safefile", "internal/server", "ledger/index", "proofs", "proofs/monitor/fetch", "storage", "storage/postgres", "storage/postgres/pooler"},
	"internal/testing/authority":         {},
	"internal/memory":                    {},
	"internal/openfiles":                 {"api/limits"},
	"internal/importer":                  {"client", "client/wire", "ledger/record", "ledger/record/formats", "ledger/record/pyjson"},
	"internal/gate":                      {"client", "client/wire", "ledger/drift/evidence", "ledger/textdiff"},
	"internal/rerun":                     {"client", "client/wire", "internal/cli", "ledger/record/pyjson"},
	"internal/testing/llm":               {},
	"internal/example":                   {},
	"internal/demo":                      {"client", "client/wire", "internal/cli", "internal/example"},
	"internal/story":                     {"ledger/record/rules"},
	"internal/verify":                    {"internal/cli", "internal/table", "ledger/event", "ledger/record", "ledger/record/members", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules", "ledger/record/strict", "proofs", "proofs/pack"},
	"internal/show":                      {"client", "client/wire", "internal/cli", "internal/remote"},
	"internal/remote":                    {"client", "internal/cli", "internal/safefile", "ledger"},
	"internal/cli":                       {"internal/safefile", "proofs"},
	"internal/bloom":                     {},
	"internal/enginelog":                 {},
	"internal/folderlock":                {"internal/safefile", "storage"},
	"internal/frames":                    {},
	"internal/safefile":                  {},
	"storage/pebble":                     {"internal/bloom", "internal/enginelog", "internal/folderlock", "internal/frames", "storage", "storage/pebble/internal/disk", "storage/pebble/internal/erase", "storage/pebble/internal/keycheck", "storage/pebble/internal/keys"},
	"storage/pebble/internal/keys":       {"storage"},
	"storage/pebble/pebbletest":          {"storage", "storage/pebble/internal/keys"},
	"storage/storagetest":                {"storage"},
	"storage/faulty":                     {"storage"},
	"ledger":                             {"ledger/event", "ledger/highwater", "ledger/queue", "ledger/recent", "ledger/record", "ledger/record/members", "ledger/record/moment", "ledger/record/rules", "ledger/record/seqs", "proofs", "storage"},
	"ledger/queue":                       {},
	"ledger/event":                       {"ledger/record", "ledger/record/fields", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules", "ledger/record/seqs"},
	"ledger/drift":                       {"ledger/event", "ledger/record/members", "ledger/record/rules"},
	"ledger/drift/evidence":              {},
	"ledger/textdiff":                    {},
	"ledger/figures":                     {"client/wire", "ledger/event", "ledger/record/members", "ledger/record/pyjson", "ledger/textdiff", "proofs"},
	"ledger/index/runs":                  {"ledger/drift", "ledger/event", "ledger/index", "ledger/index/citations", "ledger/index/groups", "ledger/index/records", "ledger/index/rowstore", "ledger/record"},
	"ledger/index/records":               {"ledger/drift", "ledger/event", "ledger/index", "ledger/index/counters", "ledger/index/rowstore", "ledger/record", "ledger/record/fields", "ledger/record/pyjson", "ledger/record/rules", "storage"},
	"ledger/index/groups":                {"internal/bloom", "ledger/drift", "ledger/event", "ledger/index", "ledger/index/counters", "ledger/index/records", "ledger/index/rowstore", "ledger/record", "ledger/record/members"},
	"ledger/index/effects":               {"internal/bloom", "ledger/event", "ledger/index", "ledger/index/groups", "ledger/index/records", "ledger/index/rowstore", "ledger/record", "ledger/record/members", "ledger/record/pyjson", "storage"},
	"ledger/index/rates":                 {"ledger/drift", "ledger/event", "ledger/index", "ledger/index/groups", "ledger/index/rowstore", "ledger/record"},
	"ledger/index/rundags":               {"ledger/drift", "ledger/event", "ledger/index", "ledger/index/counters", "ledger/index/records", "ledger/index/rowstore", "ledger/record", "ledger/record/pyjson", "storage"},
	"ledger/index/producers":             {"ledger/event", "ledger/index", "ledger/index/counters", "ledger/index/records", "ledger/index/rowstore", "storage"},
	"ledger/index/paths":                 {"ledger/event", "ledger/index", "ledger/index/counters", "ledger/index/records", "ledger/index/rowstore", "ledger/record"},
	"ledger/index/citations":             {"ledger/drift", "ledger/event", "ledger/index", "ledger/index/counters", "ledger/index/records", "ledger/index/rowstore", "ledger/record", "storage"},
	"ledger/index/counters":              {"ledger/event", "ledger/index/rowstore", "ledger/record", "ledger/record/pyjson", "ledger/record/rules"},
	"ledger/index":                       {"ledger/event", "ledger/index/counters", "ledger/index/rowstore", "ledger/record", "storage"},
	"ledger/index/rowstore":              {"internal/enginelog", "internal/frames"},
	"api":                                {"", "api/access", "api/admin", "api/batch", "api/call", "api/limits", "api/log", "api/otlp", "api/problem", "api/questions", "api/records", "api/reference", "client/wire", "console", "internal/example", "ledger", "ledger/figures", "ledger/index", "ledger/index/counters", "ledger/query", "ledger/record", "storage"},
	"api/access":                         {"internal/safefile", "ledger/record", "ledger/record/pyjson", "storage"},
	"api/hostile":                        {},
	"console":                            {},
	"client/wire":                        {},
	"client":                             {"client/wire", "proofs"},
	"deploy":                             {},
	"e2e/faults":                         {},
	"e2e/upgrade":                        {},
	"cmd/colophon":                       {everything},
	"ledger/index/indextest":             {},
	"ledger/index/rowstore/rowstoretest": {"ledger/index/rowstore"},
	"ledger/query":                       {"client/wire", "ledger/drift", "ledger/event", "ledger/figures", "ledger/index", "ledger/index/citations", "ledger/index/effects", "ledger/index/groups", "ledger/index/paths", "ledger/index/producers", "ledger/index/rates", "ledger/index/records", "ledger/index/rundags", "ledger/index/runs", "ledger/query/facts", "ledger/query/forms", "ledger/query/prefix", "ledger/query/search", "ledger/record", "ledger/record/fields", "ledger/record/members", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules", "proofs", "storage"},
	"internal/table":                     {"ledger/record/pyjson", "proofs"},
	"internal/webhook":                   {"client/wire", "internal/safefile", "ledger", "ledger/event", "ledger/index", "ledger/index/citations", "ledger/index/producers", "ledger/query/facts", "ledger/record", "storage"},
	"internal/export":                    {"client", "client/wire", "internal/cli", "internal/remote", "internal/safefile", "internal/size", "internal/table", "ledger/record/pyjson", "proofs", "proofs/pack"},
	"api/reference":                      {""},
	"proofs/monitor":                     {"client/wire", "internal/folderlock", "internal/safefile", "ledger/event", "ledger/record", "ledger/record/pyjson", "proofs", "proofs/audit", "proofs/monitor/fetch", "storage"},
	"api/limits":                         {"internal/size", "ledger/record"},
	"internal/testing/ledgertest":        {"api", "client/wire", "internal/datadir", "internal/server", "ledger", "proofs", "proofs/audit", "storage", "storage/pebble"},
	"proofs/monitor/fetch":               {"client", "proofs", "proofs/audit"},
	"proofs/replay":                      {"client/wire", "ledger/index", "ledger/index/effects", "ledger/index/groups", "ledger/index/paths", "ledger/index/rundags", "ledger/query", "ledger/record", "ledger/record/fields", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules", "proofs", "proofs/audit", "proofs/monitor", "proofs/monitor/fetch", "proofs/replay/reference"},
	"ledger/keystore":                    {"internal/safefile", "ledger", "proofs", "storage"},
	"ledger/record/strict":               {"ledger/record/pyjson", "ledger/record/rules"},
	"ledger/record/seqs":                 {"ledger/record/pyjson", "ledger/record/strict"},
	"ledger/record/retrieval":            {"ledger/record/pyjson", "ledger/record/rules", "ledger/record/strict"},
	"storage/pebble/internal/disk":       {"storage"},
	"storage/pebble/internal/erase":      {"storage/pebble/internal/disk", "storage/pebble/internal/keys"},
	"storage/pebble/internal/keycheck":   {"storage", "storage/pebble/internal/keys"},
	"proofs/audit/recompute":             {"ledger/event", "ledger/record", "ledger/record/fields", "ledger/record/members", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules", "ledger/record/strict", "proofs"},
	"ledger/record/formats":              {"internal/genai", "ledger/record", "ledger/record/fields", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules"},
	"api/admin":                          {"api/call", "api/problem", "api/receipts", "client/wire", "ledger", "ledger/index", "ledger/index/records", "ledger/query", "ledger/record", "ledger/record/pyjson", "ledger/record/seqs", "proofs"},
	"api/otlp":                           {"api/call", "api/limits", "api/problem", "internal/genai", "ledger", "ledger/record", "ledger/record/pyjson"},
	"api/batch":                          {"api/access", "api/call", "api/limits", "api/problem", "api/records", "ledger", "ledger/index", "ledger/index/paths", "ledger/record", "ledger/record/fields", "ledger/record/formats", "ledger/record/pyjson", "ledger/record/strict"},
	"api/call":                           {"api/access", "api/limits", "api/problem", "ledger", "ledger/index", "ledger/query", "ledger/record"},
	"api/log":                            {"api/access", "api/call", "api/limits", "api/problem", "api/receipts", "client/wire", "ledger", "ledger/event", "ledger/index", "ledger/index/counters", "ledger/query", "ledger/record", "ledger/record/moment", "ledger/record/pyjson", "proofs", "storage"},
	"api/problem":                        {"api/limits", "ledger", "ledger/highwater", "ledger/index", "ledger/query", "ledger/record/strict", "storage"},
	"api/questions":                      {"api/access", "api/call", "api/limits", "api/problem", "api/receipts", "client/wire", "ledger", "ledger/event", "ledger/figures", "ledger/index/counters", "ledger/index/effects", "ledger/index/records", "ledger/query", "ledger/record", "ledger/record/pyjson", "ledger/record/retrieval", "ledger/record/rules", "proofs", "storage"},
	"internal/genai":                     {"ledger/record/moment", "ledger/record/pyjson"},
	"api/receipts":                       {"api/call", "ledger", "proofs"},
	"api/records":                        {"api/access", "api/call", "api/problem", "api/receipts", "client/wire", "ledger", "ledger/index", "ledger/index/citations", "ledger/index/paths", "ledger/query", "ledger/query/facts", "ledger/record", "ledger/record/fields", "ledger/record/members", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/strict", "proofs", "storage"},
	"internal/size":                      {},
	"proofs/replay/reference":            {"client/wire", "ledger/index", "ledger/index/counters", "ledger/index/effects", "ledger/query", "ledger/record", "ledger/record/pyjson", "ledger/record/rules", "proofs", "proofs/audit", "storage"},
	"internal/testing/bodies":            {},
	"internal/completion":                {"client", "client/wire", "internal/cli", "internal/remote", "internal/rerun", "ledger", "ledger/index/paths", "ledger/record", "ledger/record/fields", "ledger/record/formats"},
	"internal/migrate":                   {"api/access", "internal/archive", "internal/cli", "internal/datadir", "internal/folderlock", "internal/safefile", "ledger", "ledger/event", "ledger/record", "ledger/storeaudit", "proofs", "proofs/audit", "storage", "storage/pebble", "storage/postgres"},
	"storage/postgres":                   {"storage", "storage/postgres/commitrows", "storage/postgres/notify", "storage/postgres/pooler", "storage/postgres/schema", "storage/postgres/sockets"},
	"storage/postgres/model":             {},
	"storage/postgres/pgbinary":          {},
	"storage/postgres/commitrows":        {"storage", "storage/postgres/pgbinary"},
	"storage/postgres/postgrestest":      {},
	"ledger/record/members":              {"ledger/record/pyjson", "ledger/record/rules"},
	"cmd/colophon/drift":                 {"client", "client/wire", "internal/cli", "internal/completion", "internal/gate", "internal/remote", "internal/show", "ledger", "ledger/index/paths", "ledger/index/rundags", "ledger/record/fields", "ledger/record/members", "ledger/record/pyjson"},
	"ledger/query/facts":                 {"client/wire", "ledger/index", "ledger/index/citations", "ledger/index/paths", "ledger/index/records", "ledger/index/rundags", "ledger/index/runs", "ledger/record"},
	"ledger/query/search":                {"client/wire", "ledger/figures", "ledger/index", "ledger/index/citations", "ledger/index/groups", "ledger/index/paths", "ledger/index/producers", "ledger/index/records", "ledger/index/rundags", "ledger/query/prefix", "ledger/record"},
	"ledger/query/forms":                 {"ledger/drift", "ledger/index/records", "ledger/query/prefix", "ledger/record/fields", "ledger/record/members", "ledger/record/pyjson", "ledger/record/rules"},
	"ledger/query/prefix":                {"ledger/event", "ledger/index", "ledger/index/groups", "ledger/index/records", "ledger/record"},
	"ledger/record/moment":               {},
	"internal/cluster":                   {"ledger", "storage", "storage/postgres"},
	"internal/publish":                   {"internal/publish/bucket", "ledger", "proofs", "storage"},
	"internal/publish/bucket":            {"internal/safefile"},
	"internal/publish/bucket/buckettest": {"internal/publish/bucket"},
	"ledger/record/fields":               {"ledger/record/members", "ledger/record/moment", "ledger/record/pyjson", "ledger/record/rules", "ledger/record/seqs"},
	"ledger/storeaudit":                  {"ledger", "ledger/event", "proofs", "proofs/audit", "storage"},
	"storage/postgres/sockets":           {},
	"internal/indexfetch":                {"client", "client/wire", "ledger/index", "proofs"},
	"internal/archive":                   {"internal/publish/bucket", "proofs", "proofs/audit", "storage"},
	"internal/logurl":                    {"client", "internal/cli", "internal/publish/bucket", "internal/remote", "proofs/monitor/fetch"},
	"internal/mirror":                    {"ledger", "ledger/event", "ledger/record", "proofs", "proofs/audit", "proofs/monitor/fetch", "storage"},
	"ledger/recent":                      {},
	"storage/postgres/notify":            {},
	"storage/postgres/schema":            {"storage"},
	"ledger/highwater":                   {"proofs", "storage"},
	"storage/postgres/pooler":            {},
	"internal/testing/locked":            {},
}

// allowedModules maps each pure package to prefixes of the external packages that it may depend on. The
// lists are short because auditors import these packages.
var allowedModules = map[string][]string{
	"ledger/record": {"golang.org/x/text/"},
	"client/wire":   {},
	"client":        {"golang.org/x/text/", "golang.org/x/mod/sumdb/note", "github.com/transparency-dev/merkle", "github.com/transparency-dev/formats/"},
	"proofs":        {"golang.org/x/text/", "golang.org/x/mod/sumdb/note", "github.com/transparency-dev/merkle", "github.com/transparency-dev/formats/"},
}

type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

func list(t *testing.T, arguments ...string) (packages []listed) {
	t.Helper()
	command := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports"}, arguments...)...)
	out, err := command.Output()
	require.NoError(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

// relativePath returns the path of a package relative to the root of this module. It returns false if the
// package belongs to another module.
func relativePath(path string) (string, bool) {
	if path == "colophon" {
		return "", true
	}
	return strings.CutPrefix(path, "colophon/")
}

func TestArrows(t *testing.T) {
	for _, p := range list(t, "./...") {
		from, _ := relativePath(p.ImportPath)
		allowed, known := allowedImports[from]
		require.True(t, known, "list in allowedImports what %s may import", p.ImportPath)
		for _, path := range p.Imports {
			if to, ours := relativePath(path); ours {
				require.True(t, slices.Contains(allowed, to) || slices.Contains(allowed, everything), "%s must not import %s", p.ImportPath, path)
			}
		}
	}
}

func TestPurePackages(t *testing.T) {
	for from, allowed := range allowedModules {
		for _, p := range list(t, "-deps", "./"+from) {
			if _, ours := relativePath(p.ImportPath); ours || p.Standard {
				continue
			}
			ok := slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(p.ImportPath, prefix) })
			require.True(t, ok, "%s must not depend on %s", from, p.ImportPath)
		}
	}
}
