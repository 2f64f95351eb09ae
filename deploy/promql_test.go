package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// metricNames uses these expressions to find the metrics that a PromQL expression selects. It
// removes strings first, because label values can contain anything.
var (
	promString    = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`")
	promComment   = regexp.MustCompile(`#[^\n]*`)
	promSelector  = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]`)
	promGrouping  = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	promNumber    = regexp.MustCompile(`\b[0-9][0-9a-zA-Z.]*`)
	promWord      = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	promOperators = []string{"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right", "inf", "nan",
		"sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile", "stddev", "group", "count_values"}
)

// metricNames returns the names of the metrics that a PromQL expression selects: all words that are
// not functions, operators, or labels.
func metricNames(expression string) []string {
	for _, beside := range []*regexp.Regexp{promString, promComment, promSelector, promGrouping, promNumber} {
		expression = beside.ReplaceAllString(expression, " ")
	}
	var names []string
	for _, word := range promWord.FindAllString(expression, -1) {
		name, function := strings.CutSuffix(word, "(")
		name = strings.TrimSpace(name)
		if !function && !slices.Contains(promOperators, strings.ToLower(name)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func TestMetricNames(t *testing.T) {
	for expression, want := range map[string][]string{
		`up`:                         {"up"},
		`a_total{b="c{d",e!~'f\'g'}`: {"a_total"},
		`sum by (ledger) (rate(a_total{x="y"}[5m:30s] offset 15m)) / on (ledger) group_left () level:b:max > 0.01`: {"a_total", "level:b:max"},
		`histogram_quantile(0.99, sum by (le) (rate(a_bucket[$__rate_interval])))`:                                 {"a_bucket"},
		`max without(x)(a) or vector(0) unless on() b * 1e15 and NaN != bool c`:                                    {"a", "b", "c"},
		"a # by b\n+ c{d=\"e\"} - a":      {"a", "c"},
		`topk (3, a) and absent(b{c=""})`: {"a", "b"},
	} {
		require.Equal(t, want, metricNames(expression), "%s", expression)
	}
}
