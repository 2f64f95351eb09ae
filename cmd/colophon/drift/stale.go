package drift

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/completion"
)

func newStale(d *commands) *cobra.Command {
	var every bool
	command := &cobra.Command{
		Use:   "stale [SOURCE]",
		Short: "Show citation sets that cite a chunk that the source no longer has",
		Long: `Show citation sets that cite a chunk that the source no longer has. SOURCE is the
source_id of their citations, or a prefix of it that no other source_id shares. The column
HOW says how the chunk was superseded:

  recited     a later set cites another chunk for the same section of the source or, if
              the citation has no section, for the same subject
  registered  the source was later registered with chunk_hashes that lack the chunk
  not_listed  the source was already registered with chunk_hashes that lack the chunk

RUN is the run_id of the set, which often identifies the answer.

Without SOURCE, stale lists the sources with the number of stale citations of each: the
registered sources, and those that the latest 1000 citation sets cite or, with --all,
that any set cites. With --every-source or --json, it shows the stale citations of all
sources instead, one source after the other.`,
		Example: `  colophon drift stale
  colophon drift stale --every-source
  colophon drift stale handbook
  colophon drift stale handbook --all --full`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && every:
				return cli.ExitErrorf(cli.ExitUsage, "--every-source shows all sources; omit SOURCE or the flag")
			case len(args) == 1:
				return stale(d, command, args[0])
			case every || d.json:
				return printAllStale(d, command)
			}
			return staleSources(d, command)
		},
	}
	command.ValidArgsFunction = completion.FirstArgumentOnly(func(command *cobra.Command, _ []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
		defer limitTime(command)()
		sources, _, err := knownSources(d, command)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, id := range slices.Sorted(maps.Keys(sources)) {
			ids = append(ids, cli.QuoteCell(id))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	})
	command.Flags().BoolVar(&every, "every-source", false, "show the stale citations of every source")
	d.pageFlags(command.Flags())
	d.fullFlag(command.Flags())
	return command
}

// printAllStale prints the stale citations of every source.
func printAllStale(d *commands, command *cobra.Command) error {
	t := cli.NewTable(d.Out, cli.TextColumn("source"), cli.NumberColumn("event"), cli.TextColumn("subject"), cli.TextColumn("chunk"), cli.NumberColumn("superseded by"), cli.TextColumn("how"), cli.TextColumn("run"))
	return list(d, command, "/citation-sets/stale", d.query(command), t, nothingStale, func(r wire.StaleCitationRow) []string {
		return []string{cli.QuoteCell(r.SourceID), cli.FormatUint(r.Seq), cli.QuoteCell(r.Subject), chunk(d, r.ChunkHash), cli.FormatUint(r.SupersededBy), cli.QuoteCell(r.Cause), cli.QuoteOptionalCell(r.RunID)}
	})
}

const nothingStale = "no citation is stale: no later set cites other chunks of a source for the same section or subject, and no registered source lacks a cited chunk in its chunk_hashes"

// stale prints the stale citations of one source.
func stale(d *commands, command *cobra.Command, source string) error {
	query := d.query(command)
	query.Set("source_id", source)
	t := cli.NewTable(d.Out, cli.NumberColumn("event"), cli.TextColumn("subject"), cli.TextColumn("chunk"), cli.NumberColumn("superseded by"), cli.TextColumn("how"), cli.TextColumn("run"))
	err := list(d, command, "/citation-sets/stale", query, t, "", func(r wire.StaleCitationRow) []string {
		return []string{cli.FormatUint(r.Seq), cli.QuoteCell(r.Subject), chunk(d, r.ChunkHash), cli.FormatUint(r.SupersededBy), cli.QuoteCell(r.Cause), cli.QuoteOptionalCell(r.RunID)}
	})
	if err != nil || t.RowCount > 0 || d.json {
		return err
	}
	return explainNoStale(d, command, source)
}

// explainNoStale explains why no citation of a source is stale. If no set cites the source and it is not
// registered, it treats the given text as the beginning of a source's ID.
func explainNoStale(d *commands, command *cobra.Command, source string) error {
	query := d.asOf(command)
	query.Set("limit", "1")
	cited, _, err := fetch[wire.Page[wire.CitingSetRow]](d, command, "/citation-sets/by-source/"+url.PathEscape(source), query)
	if err != nil {
		return err
	}
	registration, _, err := fetch[wire.SourceAnswer](d, command, "/sources/"+url.PathEscape(source), d.asOf(command))
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	registered := err == nil && registration.Registered
	switch {
	case len(cited.Rows) == 0 && registered:
		d.PrintErrf("the source is registered, but no citation set cites it")
		return nil
	case len(cited.Rows) == 0:
		return printStaleByPrefix(d, command, source)
	}
	why := "and the source is not registered"
	if registered {
		why = "and the source is registered without chunk_hashes"
		if registration.ChunkCount != nil {
			why = "and its registered chunk_hashes include every cited chunk"
		}
	}
	d.PrintErrf("no citation of the source is stale: no later citation set cites different chunks of the source for the same section or subject, %s", why)
	return nil
}

// printStaleByPrefix prints the stale citations of the only source whose ID starts with the given text. If
// there is no such source, it says so; if there are several, it returns an error.
func printStaleByPrefix(d *commands, command *cobra.Command, toComplete string) error {
	sources, _, err := knownSources(d, command)
	if err != nil {
		return err
	}
	var matches []string
	for _, id := range slices.Sorted(maps.Keys(sources)) {
		if strings.HasPrefix(id, toComplete) && id != toComplete {
			matches = append(matches, id)
		}
	}
	switch len(matches) {
	case 0:
		d.PrintErrf("no citation set cites the given source, and it is not registered; run colophon drift stale to list the sources")
		return nil
	case 1:
		d.PrintErrf("source %s", cli.QuoteCell(matches[0]))
		return stale(d, command, matches[0])
	}
	return cli.ExitErrorf(cli.ExitFailed, "more than one source_id begins with %s: %s; use a longer prefix", cli.QuoteCell(toComplete), cli.QuoteCell(fewOf(matches)))
}

// knownSources returns the registered sources and those cited by the latest 1000 citation sets or,
// with --all, by any set. The map's values state whether the source is registered. more reports
// whether there are citation sets that were not read.
func knownSources(d *commands, command *cobra.Command) (sources map[string]bool, more bool, err error) {
	sources = make(map[string]bool)
	query := d.asOf(command)
	query.Set("limit", "1000")
	err = forEachRow(d, command, "/sources", query, func(s wire.Source) bool {
		sources[s.SourceID] = s.Registered
		return true
	})
	if err != nil {
		return nil, false, err
	}
	query = d.asOf(command)
	query.Set("kind", string(wire.KindCitationSet))
	query.Set("events", "true")
	query.Set("limit", "1000")
	sets := 0
	err = forEachRow(d, command, "/records", query, func(r wire.ListedRecord) bool {
		if more = sets == 1000 && !d.all; more {
			return false
		}
		sets++
		var e struct{ Record wire.CitationSetEvent }
		if json.Unmarshal(r.Event, &e) == nil {
			for _, c := range e.Record.Citations {
				if _, known := sources[c.SourceID]; !known {
					sources[c.SourceID] = false
				}
			}
		}
		return true
	})
	return sources, more, err
}

// staleSources prints the number of stale citations of each source.
func staleSources(d *commands, command *cobra.Command) error {
	sources, more, err := knownSources(d, command)
	if err != nil {
		return err
	}
	t := cli.NewTable(d.Out, cli.TextColumn("source"), cli.TextColumn("registered"), cli.NumberColumn("stale citations"))
	var rows [][]string
	some := false
	for _, id := range slices.Sorted(maps.Keys(sources)) {
		query := d.asOf(command)
		query.Set("source_id", id)
		query.Set("limit", "1000")
		page, _, err := fetch[wire.Page[wire.StaleCitationRow]](d, command, "/citation-sets/stale", query)
		if err != nil {
			return err
		}
		count := fmt.Sprint(len(page.Rows))
		if page.Next != "" {
			count += " or more"
		}
		some = some || len(page.Rows) > 0
		rows = append(rows, []string{cli.QuoteCell(id), yesNo(sources[id]), count})
	}
	if len(rows) > 0 {
		if err := t.WriteRows(rows); err != nil {
			return err
		}
	}
	if more {
		d.PrintErrf("only registered sources and sources cited by the latest 1000 citation sets are listed; use --all to read all citation sets")
	}
	switch {
	case len(rows) == 0:
		d.PrintErrf("no citation set is recorded and no source is registered")
	case some:
		d.PrintErrf("colophon drift stale SOURCE shows the stale citations of a source")
	default:
		d.PrintErrf(nothingStale)
	}
	return nil
}
