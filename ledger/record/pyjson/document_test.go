package pyjson

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func parse(t testing.TB, source string) Value {
	t.Helper()
	var d Document
	require.NoError(t, d.Parse([]byte(source)), source)
	return d.Root()
}

func TestParseErrors(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth)
	ones := strings.Repeat("1", MaxIntegerDigits+1)
	for _, c := range []struct {
		source  string
		offset  int
		pointer string
		msg     string
	}{
		{"", 0, "", "unexpected end"},
		{" \t", 2, "", "unexpected end"},
		{"\ufeff{}", 0, "", "unexpected byte order mark"},
		{"\u00a01", 0, "", "expected a value"},
		{"tru", 0, "", "expected a value"},
		{"nul1", 0, "", "expected a value"},
		{"NaN", 0, "", "expected a value"},
		{"-Infinity", 1, "", "malformed number"},
		{"+1", 0, "", "expected a value"},
		{"-", 1, "", "malformed number"},
		{"-01", 1, "", "malformed number"},
		{"1.e5", 2, "", "malformed number"},
		{"1e+", 3, "", "malformed number"},
		{"1 2", 2, "", "unexpected data after the document"},
		{"[1,]", 3, "", "expected a value"},
		{"[1 2]", 3, "", "expected ',' or ']'"},
		{"[1", 2, "", "expected ',' or ']'"},
		{"{1:2}", 1, "", "expected a member name"},
		{`{"a":1,}`, 7, "", "expected a member name"},
		{`{"a" 1}`, 5, "", "expected ':'"},
		{`{"a":1 "b"`, 7, "", "expected ',' or '}'"},
		{`"ab`, 3, "", "unterminated string"},
		{`"a\n`, 4, "", "unterminated string"},
		{"\"a\tb\"", 2, "", "unescaped control character"},
		{"\"\\n\x00\"", 3, "", "unescaped control character"},
		{`"\x41"`, 1, "", "invalid escape"},
		{`"\u12`, 1, "", "invalid escape"},
		{`"\u12g4"`, 1, "", "invalid escape"},
		{`"\`, 1, "", "invalid escape"},
		{`"\ud800\u"`, 7, "", "invalid escape"},
		{"[\"a\xff\"]", 3, "", "invalid UTF-8"},
		{"\"\xed\xa0\x80\"", 1, "", "invalid UTF-8"},
		{"\"\xc3", 1, "", "invalid UTF-8"},
		{`{"a":1,"a":2}`, 7, "", "duplicate member name"},
		{`{"x":[0,{"b":{},"a":1,"c":{"d":[]},"\u0061":2}]}`, 35, "/x/1", "duplicate member name"},
		{`{"b~/":{"b":1,"b":2}}`, 14, "/b~0~1", "duplicate member name"},
		{`{"a":[[],{"b":[1,1e309]}]}`, 17, "/a/1/b/1", "number out of range for a double"},
		{`{"a":{},"b":{"c":-1e400}}`, 17, "/b/c", "number out of range for a double"},
		{"1e400", 0, "", "number out of range for a double"},
		{"[0," + ones + "]", 3, "/1", "integer has more than 4300 digits"},
		{deep + "{", MaxDepth, strings.Repeat("/0", MaxDepth), "nested too deeply"},
	} {
		var d Document
		err := d.Parse([]byte(c.source))
		require.Equal(t, &SyntaxError{c.offset, c.pointer, c.msg}, err, "%.80q", c.source)
		require.Zero(t, d.Root())
	}
}

func TestSyntaxErrorText(t *testing.T) {
	require.EqualError(t, &SyntaxError{Offset: 3, Msg: "expected ':'"}, "invalid JSON at byte 3: expected ':'")
	require.EqualError(t, &SyntaxError{3, "/a", "duplicate member name"}, "invalid JSON at byte 3 (/a): duplicate member name")
}

func TestParseTooLarge(t *testing.T) {
	var d Document
	err := d.Parse(make([]byte, MaxSourceBytes+1))
	require.Equal(t, &SyntaxError{Offset: MaxSourceBytes, Msg: "document too large"}, err)
}

func TestParseDoesNotAllocateWhenWarm(t *testing.T) {
	for name, body := range benchmarkBodies(t) {
		var d Document
		canonical := make([]byte, 0, 2*len(body))
		allocations := testing.AllocsPerRun(20, func() {
			if err := d.Parse(body); err != nil {
				t.Fatal(err)
			}
			canonical = d.Root().AppendCanonical(canonical[:0], CompactForm)
		})
		require.Zero(t, allocations, name)
	}
}

func TestResetDropsLargeArenas(t *testing.T) {
	require.EqualValues(t, nodeBytes, unsafe.Sizeof(node{}))
	require.EqualValues(t, memberBytes, unsafe.Sizeof(member{}))

	var d Document
	require.NoError(t, d.Parse([]byte(`{"b":1,"a":"\n"}`)))
	d.Reset()
	require.Zero(t, d.Root())
	require.NotZero(t, cap(d.nodes))
	require.NotZero(t, cap(d.text))
	require.NotZero(t, cap(d.members))

	require.NoError(t, d.Parse(reversedMembers(70000)))
	d.Reset()
	require.Nil(t, d.src)
	require.Zero(t, cap(d.nodes))
	require.Zero(t, cap(d.text))
	require.Zero(t, cap(d.members))
}

// reversedMembers returns an object with n members in descending order of name. The names contain
// escapes and share a long prefix.
func reversedMembers(n int) []byte {
	b := []byte("{")
	for i := n; i > 0; i-- {
		b = fmt.Appendf(b, `"%s\n%08d":0,`, strings.Repeat("n", 40), i)
	}
	b[len(b)-1] = '}'
	return b
}

// TestHostileDocuments parses documents that would take very long to parse if the cost grew faster
// than n log n.
func TestHostileDocuments(t *testing.T) {
	const n = 200_000
	var d Document
	compact := func(source []byte) []byte {
		require.NoError(t, d.Parse(source))
		return d.Root().AppendCanonical(nil, CompactForm)
	}

	members := compact(reversedMembers(n))
	require.Len(t, members, len(reversedMembers(n)))
	require.True(t, bytes.HasPrefix(members, []byte(`{"`+strings.Repeat("n", 40)+`\n00000001":0,`)))

	array := "[" + strings.Repeat("1,", 10*n) + "1]"
	require.Equal(t, array, string(compact([]byte(array))))

	// The members are out of order at every level, and the innermost level has a large value.
	large := `"` + strings.Repeat("x", 10*n) + `"`
	nested := strings.Repeat(`{"b":0,"a":`, MaxDepth) + large + strings.Repeat("}", MaxDepth)
	want := strings.Repeat(`{"a":`, MaxDepth) + large + strings.Repeat(`,"b":0}`, MaxDepth)
	require.Equal(t, want, string(compact([]byte(nested))))

	wide := "[" + strings.Repeat(strings.Repeat("[", MaxDepth-1)+strings.Repeat("]", MaxDepth-1)+",", n/100) + "1e999]"
	var syntax *SyntaxError
	require.ErrorAs(t, d.Parse([]byte(wide)), &syntax)
	require.Equal(t, fmt.Sprintf("/%d", n/100), syntax.Pointer)
}

func TestParseWithin(t *testing.T) {
	for source, count := range map[string]int{"1": 1, "[]": 1, `{"a":1}`: 3, `[{"a":[1,2]},"x"]`: 7, `{"b":null,"a":{}}`: 5} {
		var d Document
		require.NoError(t, d.ParseLimited([]byte(source), count), source)
		require.Len(t, d.nodes, count, source)
		err := d.ParseLimited([]byte(source), count-1)
		require.ErrorContains(t, err, fmt.Sprintf("more than %d values and member names", count-1), source)
		require.Equal(t, Absent, d.Root().Kind())
		require.NoError(t, d.Parse([]byte(source)), "the bound applies to one source")
	}
}
