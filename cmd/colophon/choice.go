package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"colophon/internal/cli"
)

// recordChoice holds the flags that select records.
type recordChoice struct {
	labels, where []string // each element has the form "NAME=VALUE"
}

// filterFlags lists the flags that select records. Each corresponds to the query parameter of the
// same name, with underscores instead of hyphens.
var filterFlags = []struct{ flag, usage string }{
	{"run-id", "records of this `run`"},
	{"subject", "citation sets about this `subject`"},
	{"project", "path fingerprints of this `project`"},
	{"kind", "records of this `kind`: ipc_record, run_dag, citation_set or path_fingerprint"},
}

// isFilter reports whether a flag corresponds to a filter parameter of GET /records.
func isFilter(flag string) bool {
	return flag == "since" || flag == "until" || slices.ContainsFunc(filterFlags, func(f struct{ flag, usage string }) bool { return f.flag == flag })
}

func (r *recordChoice) bind(flags *pflag.FlagSet) {
	for _, f := range filterFlags {
		flags.String(f.flag, "", f.usage)
	}
	cli.AddTimeFlag(flags, "since", "records written at this `time` or later")
	cli.AddTimeFlag(flags, "until", "records written before this `time`")
	flags.StringArrayVar(&r.labels, "label", nil, "records with this label, `NAME=VALUE`; may be repeated")
	flags.StringArrayVar(&r.where, "where", nil, "records that pass any other filter of GET /records, `NAME=VALUE`; may be repeated")
}

// read returns either the record numbers in args, or the filters as parameters of GET /records; the
// other result is nil. It returns an error if the command line has both or neither.
func (r *recordChoice) read(flags *pflag.FlagSet, args []string) (seqs []uint64, filters map[string]string, err error) {
	for _, arg := range args {
		seq, err := cli.ParseSeq(arg)
		if err != nil {
			return nil, nil, err
		}
		seqs = append(seqs, seq)
	}
	filters = make(map[string]string)
	flags.Visit(func(f *pflag.Flag) {
		if isFilter(f.Name) {
			filters[strings.ReplaceAll(f.Name, "-", "_")] = f.Value.String()
		}
	})
	for prefix, pairs := range map[string][]string{"label:": r.labels, "": r.where} {
		for _, pair := range pairs {
			name, value, found := strings.Cut(pair, "=")
			if !found {
				return nil, nil, fmt.Errorf("%q does not have the form NAME=VALUE", pair)
			}
			if _, twice := filters[prefix+name]; twice {
				return nil, nil, fmt.Errorf("%q repeats the filter %q; use it only once", pair, prefix+name)
			}
			filters[prefix+name] = value
		}
	}
	switch {
	case len(filters) > 0 && len(args) > 0:
		return nil, nil, errors.New("choose records by number or by filters, not both")
	case len(filters) == 0 && len(args) == 0:
		return nil, nil, errors.New("no records are selected; specify record numbers, or a filter such as --run-id")
	case len(filters) == 0:
		return seqs, nil, nil
	}
	return nil, filters, nil
}
