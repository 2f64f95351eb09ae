package hostile_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// The names of the server's ledgers. Only frozen receives requests to freeze a ledger. The ledger
// third does not exist until a request creates it.
const (
	first  = "default"
	second = "second"
	frozen = "frozen"
	third  = "third"
)

var ledgers = []string{first, second, frozen}

func (d *generator) ledgerFor(op *operation) string {
	switch {
	case op.OperationID == "freezeLedger":
		return frozen
	case d.chance(20):
		return frozen
	case d.chance(4):
		return second
	}
	return first
}

func (d *generator) path(op *operation) string {
	path := op.route
	for _, pair := range together {
		if !strings.Contains(path, "{"+pair[0]+"}") || !strings.Contains(path, "{"+pair[1]+"}") {
			continue
		}
		if seen, ok := d.seen.recall(d.Rand, d.ledger, pair[0]+pairSeparator+pair[1]); ok && !d.chance(5) {
			a, b, _ := strings.Cut(seen, pairSeparator)
			path = strings.NewReplacer("{"+pair[0]+"}", url.PathEscape(a), "{"+pair[1]+"}", url.PathEscape(b)).Replace(path)
		}
	}
	for _, p := range op.parameters {
		if p.In != openapi3.ParameterInPath || !strings.Contains(path, "{"+p.Name+"}") {
			continue
		}
		text := d.ledger
		if p.Name != "ledger" {
			text = url.PathEscape(d.parameter(op, p))
		}
		if p.Name == "path" { // slashes in this parameter need no escaping
			text = strings.ReplaceAll(text, "%2F", "/")
		}
		path = strings.ReplaceAll(path, "{"+p.Name+"}", text)
	}
	return path
}

// addParameters adds query parameters and headers with random values: all the required ones and
// some of the optional ones.
func (d *generator) addParameters(r *request) {
	for _, p := range r.op.parameters {
		if p.In == openapi3.ParameterInPath || !p.Required && !d.chance(4+len(r.op.parameters)/4) {
			continue
		}
		name, text := p.Name, d.parameter(r.op, p)
		if prefix, _, open := strings.Cut(name, "{"); open { // the parameter label:{name} stands for every name with that prefix
			name = prefix + pick(d, words...)
			if seen, ok := d.seen.recall(d.Rand, d.ledger, "label"); ok && prefix == "label:" {
				label, of, _ := strings.Cut(seen, pairSeparator)
				name, text = prefix+label, of
			}
		}
		if p.In == openapi3.ParameterInQuery {
			r.query = append(r.query, field{name, text})
		} else {
			r.header = append(r.header, field{name, headerText(text)})
		}
	}
	r.query = d.repaired(r.op, r.query)
	if project, build, ok := d.buildSeen(); ok && r.op.OperationID == "compareBuilds" && !d.chance(5) {
		r.target = "/v1/ledgers/" + d.ledger + "/paths/" + url.PathEscape(project) + "/compare"
		r.query = slices.DeleteFunc(r.query, func(f field) bool { return f.name == "a" || f.name == "b" })
		r.query = append(r.query, field{"a", build}, field{"b", build})
	}
}

// buildSeen returns a project and one of its builds that appeared together in an answer. ok is
// false if there were none.
func (d *generator) buildSeen() (project, build string, ok bool) {
	seen, ok := d.seen.recall(d.Rand, d.ledger, "project"+pairSeparator+"build")
	project, build, _ = strings.Cut(seen, pairSeparator)
	return project, build, ok
}

// headerText replaces each character of a text that is not valid in a header with a hyphen.
func headerText(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '-'
		}
		return c
	}, text)
}

// kindOf maps an operation to the kind of record that it applies to.
var kindOf = map[string]string{
	"attributeChange": "ipc_record", "reproduce": "ipc_record", "postState": "ipc_record", "postNote": "ipc_record",
	"compareRunDAGs": "run_dag", "getStageProof": "run_dag", "getNestedProof": "run_dag",
	"getCitationsDocument": "citation_set", "pinnedRetrieval": "citation_set",
}

func (d *generator) parameter(op *operation, p *openapi3.Parameter) string {
	s := flat(p.Schema.Value)
	if kind := kindOf[op.OperationID]; kind != "" && s.Type.Is("integer") && !d.chance(6) {
		if seq, ok := d.seen.recall(d.Rand, d.ledger, "seq of "+kind); ok && (p.Name == "seq" || p.Name == "a" || p.Name == "b") {
			return seq
		}
	}
	if op.OperationID == "compareRuns" && (p.Name == "a" || p.Name == "b") && !d.chance(6) {
		if run, ok := d.seen.recall(d.Rand, d.ledger, "run_id"); ok {
			return run
		}
	}
	if s.Type.Is("string") {
		if p.Example != nil && d.chance(8) {
			text, _ := url.PathUnescape(fmt.Sprint(p.Example))
			return text
		}
		if len(s.Enum) == 0 {
			return d.text(s, p.Name)
		}
		return fmt.Sprint(pick(d, s.Enum...))
	}
	return d.value(s, p.Name, 0).String()
}

// repaired changes a query so that it also satisfies the conditions that the contract states only
// in prose.
func (d *generator) repaired(op *operation, query []field) []field {
	drop := func(unwanted func(name string) bool) {
		query = slices.DeleteFunc(query, func(f field) bool { return unwanted(f.name) })
	}
	drop(func(name string) bool { return strings.HasSuffix(name, "cursor") }) // a cursor is valid only for the query that returned it
	model, ok := d.seen.recall(d.Rand, d.ledger, "model")
	if !ok {
		model = "m"
	}
	switch op.OperationID {
	case "listTimeline": // this operation requires exactly one value to filter by
		drop(func(name string) bool {
			return name == "model" || name == "ipc_id" || strings.HasSuffix(name, "_hash") || strings.HasPrefix(name, "label:")
		})
		query = append(query, field{"model", model})
	case "listEffects": // this operation requires two values of one variable
		drop(func(name string) bool { return name == "variable" || name == "a" || name == "b" })
		query = append(query, field{"variable", "model"}, field{"a", model}, field{"b", "not " + model})
	case "getNestedProof": // this operation requires either stage or citation
		drop(func(name string) bool { return name == "stage" || name == "citation" })
		query = append(query, field{"stage", "question"})
	case "listRecords":
		if !slices.ContainsFunc(query, func(f field) bool { return f.name == "producer" }) {
			drop(func(name string) bool { return name == "producer_seq" })
		}
	case "listGroups":
		if slices.ContainsFunc(query, func(f field) bool { return f.name == "sort" }) {
			drop(func(name string) bool { return name != "sort" && name != "by" })
		}
	}
	return query
}
