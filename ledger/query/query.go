// Package query answers questions about a ledger. It lists the questions and the index families that answer them.
// Each question turns its parameters into a typed answer computed from one view of the index.
package query

import (
	"net/url"
	"slices"
	"strings"

	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/producers"
	"colophon/ledger/index/rates"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rundags"
)

// Families returns all index families, each after the families that it depends on.
func Families() []index.Family {
	return []index.Family{
		records.Family(),
		producers.Family(),
		paths.Family(),
		citations.Family(),
		rundags.Family(),
		groups.Family(),
		effects.Family(),
		rates.Family(),
	}
}

// OpenIndex opens an index that has all the families. See index.Open.
func OpenIndex(c index.Config) (*index.Store, error) {
	c.Families = Families()
	return index.Open(c)
}

var questions = slices.Concat(producerQuestions, groupQuestions, driftQuestions, effectQuestions, overviewQuestions,
	runDAGQuestions, runQuestions, recordQuestions, citationQuestions, sourceQuestions, pathQuestions)

// Questions returns all questions. The caller must not change the slice.
func Questions() []Question { return questions }

// FindQuestion returns the question for a percent-encoded path, which is relative to the ledger's path, and the
// decoded parameters in the path. ok is false if no question has that path. As in the server's routes, a fixed
// element takes precedence over a parameter, and the last element must not be empty.
func FindQuestion(path string) (q *Question, elements Parameters, ok bool) {
	for i := range questions {
		found, matches := questions[i].match(path)
		// The greater Path is the more specific one, because a fixed element sorts after the colon that begins a
		// parameter.
		if matches && (q == nil || questions[i].Path > q.Path) {
			q, elements, ok = &questions[i], found, true
		}
	}
	return q, elements, ok
}

// match reports whether the path matches the question's path and, if so, returns the parameters in it.
func (q *Question) match(path string) (Parameters, bool) {
	given, own := strings.Split(path, "/"), strings.Split(q.Path, "/")
	if len(given) != len(own) {
		return nil, false
	}
	elements := make(Parameters)
	for i, element := range own {
		name, is := strings.CutPrefix(element, ":")
		if !is {
			if element != given[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(given[i])
		if err != nil || value == "" && i == len(own)-1 {
			return nil, false
		}
		elements[name] = value
	}
	return elements, true
}
