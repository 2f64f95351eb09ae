package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/story"
)

// pathsCommand holds the flags that the paths subcommands share.
type pathsCommand struct {
	*cli.Console
	from            remote.Options
	server          *remote.Connection // set by connect
	ledger, project string
	build           string
	branch, base    string // used only by the check subcommand
}

func newPaths(c *cli.Console) *cobra.Command {
	p := &pathsCommand{Console: c}
	command := &cobra.Command{
		Use:   "paths",
		Short: "Check the paths of a story's build, and validate them",
		Long: `Check the paths of a story's build, and validate them. See also colophon drift paths,
which shows how the paths of a project change from build to build.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	flags := command.PersistentFlags()
	p.from.Bind(c, flags)
	remote.BindLedgerFlag(c, flags, &p.ledger)
	flags.StringVar(&p.project, "project", "", "`name` of the story")
	flags.StringVar(&p.build, "build", "", "`name` of the build, such as a commit")
	command.AddCommand(p.newCheck(), p.newValidate())
	return command
}

func (p *pathsCommand) newCheck() *cobra.Command {
	command := &cobra.Command{
		Use:   "check DIR",
		Short: "Post the paths of a build, and report which paths are not validated",
		Long: `Post the paths of a build, and report what is not validated. DIR is the folder of a built
story. check takes the routes and their texts from one of these, in DIR or in its folder
dist:

  allpaths-intermediate/paths.json  a list of routes, with the text of each passage
  allpaths-clean/path-ID.txt        the text of each path; the route of each ID is in
                                    allpaths-validation-status.json

check posts each path as a record of the build. Posting a build again adds nothing. Then
check prints, as Markdown, what changed since the base build, with the words that differ,
and which paths are gone. The base is the last build of the branch or, without --branch,
the last build of the project. For a pull request, give --base with the build into which
it will be merged.

check shows the words that differ only if the token has the scope content.

Exit codes: 0 every path is validated, 1 a path is not validated or the check failed,
2 bad arguments or DIR cannot be read, 3 the server cannot be reached.`,
		Example: `  colophon paths check . --project harrow-vale --build "$(git rev-parse HEAD)" --branch main
  colophon paths check . --project harrow-vale --build "$SHA" --branch pr-7 --base "$MERGE_BASE" >> "$GITHUB_STEP_SUMMARY"`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return p.check(command.Context(), args[0]) },
	}
	p.checkFlags(command.Flags())
	return command
}

func (p *pathsCommand) checkFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.branch, "branch", "", "`name` of the build's branch")
	flags.StringVar(&p.base, "base", "", "`name` of the build to compare with")
}

// connect checks the flags that all paths commands need, and connects to the server.
func (p *pathsCommand) connect() (err error) {
	if p.project == "" || p.build == "" {
		return cli.ExitErrorf(cli.ExitUsage, "--project and --build are required: name the project and the build")
	}
	p.server, err = p.from.Connect(p.Console)
	return err
}

func (p *pathsCommand) paths() *client.PathsService { return p.server.Ledger(p.ledger).Paths }

func (p *pathsCommand) check(ctx context.Context, dir string) error {
	if err := p.connect(); err != nil {
		return err
	}
	found, err := story.ReadPaths(os.DirFS(dir))
	if err != nil {
		return cli.ExitErrorf(cli.ExitUsage, "%s: %w", dir, err)
	}
	if len(found) == 0 {
		return cli.ExitErrorf(cli.ExitUsage, "%s: the folder contains no built paths; build the story first", dir)
	}
	texts, last, err := p.post(ctx, found)
	if err != nil {
		return p.server.ExplainFatal(err)
	}
	report, err := p.report(ctx, texts, last)
	if err != nil {
		return p.server.ExplainFatal(err)
	}
	if err := report.WriteMarkdown(p.Out); err != nil {
		return err
	}
	if n := report.CountUnvalidated(); n > 0 {
		return cli.ExitErrorf(cli.ExitFailed, "the build has %s without a validation", cli.FormatCount(uint64(n), "path"))
	}
	return nil
}

// post posts a record for each path. texts maps the seq of each record to the text of its path, and
// last is the highest seq.
func (p *pathsCommand) post(ctx context.Context, found []story.Path) (texts map[uint64]string, last uint64, err error) {
	lines := func(yield func(client.BatchLine) bool) {
		for _, path := range found {
			if !yield(p.line(path)) {
				return
			}
		}
	}
	texts = make(map[uint64]string)
	for result, err := range p.server.Ledger(p.ledger).Records.PostBatch(ctx, lines, nil) {
		if err == nil {
			err = result.Err
		}
		if err != nil {
			return nil, 0, err
		}
		texts[result.Receipt.Seq] = found[result.Index].Content
		last = max(last, result.Receipt.Seq)
	}
	return texts, last, nil
}

// line returns the batch line for a path. Its idempotency key is derived from the record, so
// posting the same build again adds no records.
func (p *pathsCommand) line(path story.Path) client.BatchLine {
	r := &wire.PathFingerprint{Project: p.project, Build: &p.build, Branch: given(p.branch), Base: given(p.base), Route: path.Route, Content: &path.Content}
	text, err := json.Marshal(r)
	if err != nil { // cannot happen: all members are strings
		panic(err)
	}
	digest := sha256.Sum256(text)
	return client.BatchLine{Record: r, IdempotencyKey: "paths check " + hex.EncodeToString(digest[:])}
}

// given returns a pointer to text, or nil if text is empty because the flag was not given.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// report fetches, for each path of the build, how it compares with the base build and whether it
// has been validated.
func (p *pathsCommand) report(ctx context.Context, texts map[uint64]string, last uint64) (*story.Report, error) {
	r := &story.Report{Project: p.project, Build: p.build}
	options := client.QueryOptions{AfterSeq: last, Limit: 1000}
	base, err := p.baseOf(ctx, &options)
	if err != nil {
		return nil, err
	}
	if base.Base == nil {
		if base.UnknownBase != nil {
			r.UnknownBaseBuild = *base.UnknownBase
		}
		for row, err := range p.paths().List(p.project, &client.PathFilter{QueryOptions: options, Build: p.build}).All(ctx) {
			if err != nil {
				return nil, err
			}
			c := story.ComparedPath{PathID: row.PathID, Route: row.Route, Status: row.Category, Validated: row.Validated}
			clearForeignValidation(&c, row.Seq, texts)
			r.Paths = append(r.Paths, c)
		}
		return r, nil
	}
	r.BaseBuild = *base.Base
	for row, err := range p.paths().CompareBuilds(p.project, r.BaseBuild, p.build, "", &options).All(ctx) {
		if err != nil {
			return nil, err
		}
		checked, err := p.checked(ctx, row, texts)
		if err != nil {
			return nil, err
		}
		r.Paths = append(r.Paths, *checked)
	}
	return r, nil
}

// baseOf returns the server's row for the build. The row names the base build with which the server
// compares the build.
func (p *pathsCommand) baseOf(ctx context.Context, o *client.QueryOptions) (*wire.BuildRow, error) {
	for build, err := range p.paths().Builds(p.project, o).All(ctx) {
		if err != nil || build.Build == p.build {
			return build, err
		}
	}
	return nil, cli.ExitErrorf(cli.ExitFailed, "the server does not list build %q, which was just posted; check that the URL always reaches the same server", p.build)
}

func (p *pathsCommand) checked(ctx context.Context, row *wire.PathDifference, texts map[uint64]string) (*story.ComparedPath, error) {
	c := &story.ComparedPath{PathID: row.PathID, Route: row.Route, Status: row.Status, LinksChanged: row.LinksChanged}
	for _, rename := range row.RenameCandidates {
		c.SameTextRoutes = append(c.SameTextRoutes, rename.Route)
	}
	if row.B == nil {
		return c, nil
	}
	c.Validated, c.PriorValidationSeq = row.B.Validated, row.B.EarlierValidationSeq
	if !clearForeignValidation(c, row.B.Seq, texts) || row.Status != "modified" || c.Validated {
		return c, nil
	}
	before, err := p.server.Ledger(p.ledger).Records.Content(ctx, row.A.Seq, "content")
	switch {
	case err == nil:
		c.Diff = story.MarkdownDiff(string(before), texts[row.B.Seq])
	case errors.Is(err, client.ErrForbidden):
		c.NoDiffReason = "To see the words that differ, use a token with the scope content."
	case errors.Is(err, client.ErrGone), errors.Is(err, client.ErrNotFound):
		c.NoDiffReason = "The ledger does not have the earlier text."
	default:
		return nil, err
	}
	return c, nil
}

// clearForeignValidation reports whether the record with the given seq was posted from the folder. The record
// is the latest one of a path in the build. If it was posted from elsewhere, its validation does not apply to
// the text in the folder, so clearForeignValidation clears the validation in c.
func clearForeignValidation(c *story.ComparedPath, seq uint64, texts map[uint64]string) bool {
	_, posted := texts[seq]
	if !posted {
		c.Validated = false
		c.NoDiffReason = "The latest record of this path in the build was not posted from this folder. Give each build its own name."
	}
	return posted
}

// validateCommand holds the flags of the validate subcommand.
type validateCommand struct {
	*pathsCommand
	request wire.PathValidationsRequest
	reason  string
	undo    bool
	dryRun  bool
	json    bool
}

func (p *pathsCommand) newValidate() *cobra.Command {
	v := &validateCommand{pathsCommand: p}
	command := &cobra.Command{
		Use:   "validate [PATH_ID...]",
		Short: "Validate paths of a build",
		Long: `Validate paths of a build: those that you name, those with a --status, or all. A later
build inherits the validation as long as the path does not change.

Each validation is a separate event. Paths that are already validated are left as they
are. A path that changes in the meantime is not validated.

Exit codes: 0 done, 1 a path was refused or the command failed, 2 bad arguments, 3 the
server cannot be reached.`,
		Example: `  colophon paths validate --project harrow-vale --build 89023717b66e --dry-run
  colophon paths validate 811d1f03 cb49a1b5 --project harrow-vale --build 89023717b66e --reason 'Read aloud.'`,
		RunE: func(command *cobra.Command, args []string) error { return v.run(command.Context(), args) },
	}
	flags := command.Flags()
	flags.StringVar(&v.request.Status, "status", "", "select only the paths of this `category`: new, modified, unchanged, or incomparable")
	flags.StringVar(&v.reason, "reason", "", "`reason` for the validation or its withdrawal; it stays in the log")
	flags.StringVar(&v.request.OriginalActor, "original-actor", "", "`name` of the person or service that validated the paths in another system")
	flags.StringVar(&v.request.Timestamp, "timestamp", "", "`time` of the validation in another system (RFC 3339)")
	flags.BoolVar(&v.undo, "undo", false, "withdraw validations")
	flags.BoolVar(&v.dryRun, "dry-run", false, "report what validate would do, without doing it")
	flags.BoolVar(&v.json, "json", false, "print the server's response as JSON")
	return command
}

func (v *validateCommand) run(ctx context.Context, ids []string) error {
	if err := v.connect(); err != nil {
		return err
	}
	v.request.Build, v.request.Validated, v.request.Reason = v.build, !v.undo, given(v.reason)
	for _, id := range ids {
		v.request.Paths = append(v.request.Paths, wire.ExpectedPath{PathID: id})
	}
	done, err := v.paths().ValidateMany(ctx, v.project, v.request)
	if err == nil && !v.dryRun {
		v.request.DryRun, v.request.AsOf = new(false), &done.AsOf
		done, err = v.paths().ValidateMany(ctx, v.project, v.request)
	}
	if err != nil {
		return v.server.ExplainFatal(err)
	}
	if err := v.print(done); err != nil {
		return err
	}
	if len(done.Refused) > 0 {
		return cli.ExitErrorf(cli.ExitFailed, "the server refused %s: each refused path is missing from the build, or has changed in the meantime", cli.FormatCount(uint64(len(done.Refused)), "path"))
	}
	return nil
}

func (v *validateCommand) print(done *wire.PathValidationsResult) error {
	if v.json {
		return cli.PrintAsJSON(v.Console, done)
	}
	t := cli.NewTable(v.Out, cli.TextColumn("path"), cli.TextColumn("fingerprint"), cli.NumberColumn("record"), cli.TextColumn("event"))
	var rows [][]string
	for _, p := range done.Paths {
		event := cli.NoValueCell
		if p.Seq > 0 {
			event = cli.FormatUint(p.Seq)
		}
		rows = append(rows, []string{cli.QuoteCell(p.PathID), cli.QuoteOptionalCell(p.ContentFingerprint), cli.FormatUint(p.RecordSeq), event})
	}
	for _, p := range done.Refused {
		rows = append(rows, []string{cli.QuoteCell(p.PathID), cli.NoValueCell, cli.NoValueCell, "refused: " + cli.QuoteCell(p.Reason)})
	}
	if len(rows) > 0 {
		if err := t.WriteRows(rows); err != nil {
			return err
		}
	}
	if done.DryRun {
		v.PrintErrf("dry run: nothing was recorded")
	}
	v.PrintErrf("%s unchanged", cli.FormatCount(done.Unchanged, "path"))
	return nil
}
