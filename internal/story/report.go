package story

import (
	"fmt"
	"io"
	"strings"
)

// Report lists the paths of a build, compared with those of another build.
type Report struct {
	Project, Build   string
	BaseBuild        string // the build to compare with; empty if there is none
	UnknownBaseBuild string // the requested base, if it is not in the ledger
	Paths            []ComparedPath
}

// ComparedPath is a path of the build, or a path that only the base build contains.
type ComparedPath struct {
	PathID             string
	Route              []string   // names of the passages along the path, in order
	Status             string     // new, modified, unchanged, incomparable, or gone
	Validated          bool       // whether the text in the story's folder is validated
	PriorValidationSeq uint64     // seq of the event that validated the same text earlier; 0 if there is none
	LinksChanged       bool       // only the links in the text changed
	SameTextRoutes     [][]string // routes in the other build that have the same text
	// Diff is the diff as Markdown, and NoDiffReason is the reason why there is no diff. Both are empty
	// if the text of the path is not compared.
	Diff, NoDiffReason string
}

// CountUnvalidated returns the number of paths of the build that are not validated.
func (r *Report) CountUnvalidated() (n int) {
	for _, p := range r.Paths {
		if p.Status != "gone" && !p.Validated {
			n++
		}
	}
	return n
}

// WriteMarkdown writes the report. It contains a summary, the changes to the paths that have not
// been validated, and the paths that are gone.
func (r *Report) WriteMarkdown(to io.Writer) error {
	var w strings.Builder
	counts := make(map[string]int)
	for _, p := range r.Paths {
		counts[p.Status]++
	}
	fmt.Fprintf(&w, "# Paths of %s, build %s\n\n", escape(r.Project), escape(r.Build))
	switch {
	case r.BaseBuild != "":
		fmt.Fprintf(&w, "Compared with build %s.\n\n", escape(r.BaseBuild))
	case r.UnknownBaseBuild != "":
		fmt.Fprintf(&w, "**The base build %s is not in the ledger**, so every path is new.\n\n", escape(r.UnknownBaseBuild))
	default:
		w.WriteString("There is no build to compare with, so every path is new.\n\n")
	}
	w.WriteString("| new | modified | unchanged | gone | not validated |\n| ---: | ---: | ---: | ---: | ---: |\n")
	fmt.Fprintf(&w, "| %d | %d | %d | %d | %d |\n", counts["new"], counts["modified"], counts["unchanged"], counts["gone"], r.CountUnvalidated())
	if r.CountUnvalidated() == 0 {
		w.WriteString("\nEvery path is validated.\n")
	}
	if n := counts["incomparable"]; n > 0 {
		fmt.Fprintf(&w, "\nThe ledger cannot compare %d of the paths: the hash version changed, and one of the two records was posted without its text.\n", n)
	}
	for _, status := range [...]string{"modified", "incomparable", "new", "unchanged"} {
		r.section(&w, title(status)+", not validated", func(p *ComparedPath) bool { return p.Status == status && !p.Validated })
	}
	r.section(&w, "Gone", func(p *ComparedPath) bool { return p.Status == "gone" })
	_, err := io.WriteString(to, w.String())
	return err
}

func title(status string) string { return strings.ToUpper(status[:1]) + status[1:] }

func (r *Report) section(w *strings.Builder, heading string, has func(*ComparedPath) bool) {
	for i := range r.Paths {
		p := &r.Paths[i]
		if !has(p) {
			continue
		}
		if heading != "" {
			fmt.Fprintf(w, "\n## %s\n", heading)
			heading = ""
		}
		p.write(w)
	}
}

func (p *ComparedPath) write(w *strings.Builder) {
	fmt.Fprintf(w, "\n### %s\n\nPath `%s`.", escape(FormatRoute(p.Route)), p.PathID)
	if p.PriorValidationSeq > 0 {
		fmt.Fprintf(w, " Event %d validated the same text earlier.", p.PriorValidationSeq)
	}
	if p.LinksChanged {
		w.WriteString(" Only its links changed.")
	}
	for _, route := range p.SameTextRoutes {
		was := "Perhaps renamed: the same text was at"
		if p.Status == "gone" {
			was = "Perhaps renamed: the same text is at"
		}
		fmt.Fprintf(w, " %s %s.", was, escape(FormatRoute(route)))
	}
	w.WriteString("\n")
	if p.NoDiffReason != "" {
		fmt.Fprintf(w, "\n*%s*\n", escape(p.NoDiffReason))
	}
	if p.Diff != "" {
		fmt.Fprintf(w, "\n%s", p.Diff)
	}
}
