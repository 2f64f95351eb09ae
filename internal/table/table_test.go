package table

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rowsOf returns Rows that yield the given texts.
func rowsOf(texts ...string) Rows {
	return func() iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for _, text := range texts {
				if !yield([]byte(text), nil) {
					return
				}
			}
		}
	}
}

// readAll returns the rows of a file, and the first error.
func readAll(file []byte, format Format) (texts []string, first error) {
	for row, err := range ReadRows(bytes.NewReader(file), int64(len(file)), format) {
		if err != nil && first == nil {
			first = err
		}
		texts = append(texts, string(row))
	}
	return texts, first
}

var sample = []string{
	`{"seq":1,"model":"claude-2","temperature":0,"labels":{"user":"ann","a.b":"c"},"checks":[{"name":"x"}],"stale":false}`,
	`{"seq":2,"model":"=HYPERLINK(\"http://x\")","temperature":0.5,"output":"one\r\ntwo, \"three\"\n","deep":{"a":{"b":{"c":1}}}}`,
	`{"seq":18446744073709551615,"model":null,"temperature":"hot","stale":true,"empty":{}}`,
	`{}`,
}

func TestRoundTrip(t *testing.T) {
	for _, format := range Formats {
		t.Run(string(format), func(t *testing.T) {
			var file bytes.Buffer
			require.NoError(t, WriteRows(&file, format, rowsOf(sample...)))
			texts, err := readAll(file.Bytes(), format)
			require.NoError(t, err)
			require.Equal(t, sample, texts)
			require.NoError(t, CheckForm(bytes.NewReader(file.Bytes()), int64(file.Len()), format))
		})
	}
}

func TestRoundTripOfRandomRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scalar := rapid.SampledFrom([]string{`1`, `-0`, `1.5`, `true`, `"t"`, `"\ud800"`, `"\u0000"`, `null`, `[1,"a"]`, `{}`, `""`, `"'x"`, `"_row"`, `99999999999999999999`})
		member := rapid.Custom(func(t *rapid.T) string {
			name := rapid.SampledFrom([]string{"a", "b", "a.b", "=c", "", "_row", "é"}).Draw(t, "name")
			value := scalar.Draw(t, "value")
			if rapid.Bool().Draw(t, "nested") {
				value = `{"b":` + value + `}`
			}
			return fmt.Sprintf("%q:%s", name, value)
		})
		var rows []string
		for range rapid.IntRange(0, 600).Draw(t, "rows") / 2 {
			members := rapid.SliceOfNDistinct(member, 0, 4, func(m string) string { return m[:strings.Index(m, ":")] }).Draw(t, "members")
			rows = append(rows, "{"+strings.Join(members, ",")+"}")
		}
		format := rapid.SampledFrom(Formats).Draw(t, "format")
		var file bytes.Buffer
		require.NoError(t, WriteRows(&file, format, rowsOf(rows...)))
		texts, err := readAll(file.Bytes(), format)
		require.NoError(t, err)
		require.Equal(t, rows, texts)
		require.NoError(t, CheckForm(bytes.NewReader(file.Bytes()), int64(file.Len()), format))
	})
}

// WriteRows prepends an apostrophe to text that a spreadsheet would evaluate as a formula.
func TestFormulasAreEscaped(t *testing.T) {
	var file bytes.Buffer
	require.NoError(t, WriteRows(&file, FormatCSV, rowsOf(`{"a":"=1+1","b":"@x","c":-1,"=d":"-1"}`)))
	lines, err := csv.NewReader(&file).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "'=d", RowColumn}, lines[0])
	require.Equal(t, []string{"'=1+1", "'@x", "-1", "'-1"}, lines[1][:4])
}

// ReadRows detects a change in a column or in the JSON text of a row.
func TestChangedCells(t *testing.T) {
	var file bytes.Buffer
	require.NoError(t, WriteRows(&file, FormatCSV, rowsOf(sample...)))
	text := file.String()
	for _, change := range [][2]string{
		{"\n1,claude-2,", "\n2,claude-2,"}, {",claude-2,", ",claude-3,"}, {"seq,model", "seq,colour"}, {"\n1,claude-2,", "\n,claude-2,"},
	} {
		require.Contains(t, text, change[0])
		_, err := readAll([]byte(strings.Replace(text, change[0], change[1], 1)), FormatCSV)
		require.ErrorIs(t, err, ErrCellMismatch, change[1])
	}
}

// CheckForm refuses everything in a file that its rows do not determine.
func TestOtherFormsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		rows  []string
		files []string
	}{
		"no rows":  {nil, []string{"\"VERIFIED\",_row\n", "\"_row\"\n", "_row", "_row\n\n", "a,_row\n"}},
		"two rows": {[]string{`{"a":1}`, `{"b":"x"}`}, []string{"", "a,b,c,_row\n1,,,\"{\"\"a\"\":1}\"\n,x,,\"{\"\"b\"\":\"\"x\"\"}\"\n", "'a,b,_row\n1,,\"{\"\"a\"\":1}\"\n,x,\"{\"\"b\"\":\"\"x\"\"}\"\n"}},
	} {
		var file bytes.Buffer
		require.NoError(t, WriteRows(&file, FormatCSV, rowsOf(c.rows...)))
		files := append(c.files, strings.ReplaceAll(file.String(), "\n", "\r\n"), file.String()+"\n", strings.TrimSuffix(file.String(), "\n"))
		for _, changed := range files {
			if texts, err := readAll([]byte(changed), FormatCSV); changed != "" && err == nil {
				require.Equal(t, c.rows, texts, "%s: %q", name, changed)
			}
			require.Error(t, CheckForm(strings.NewReader(changed), int64(len(changed)), FormatCSV), "%s: %q", name, changed)
		}
	}
	const row = `{"n":1700000000000,"t":"x"}`
	for name, c := range map[string]struct {
		number, text parquet.Node
		more         parquet.Group
		option       parquet.WriterOption
		ok           bool
	}{
		"own":       {integer.node(), text.node(), nil, parquet.Compression(&parquet.Snappy), true},
		"timestamp": {number: parquet.Optional(parquet.Timestamp(parquet.Millisecond))},
		"decimal":   {number: parquet.Optional(parquet.Decimal(2, 18, parquet.Int64Type))},
		"unsigned":  {number: parquet.Optional(parquet.Uint(64))},
		"bytes":     {text: parquet.Optional(parquet.Leaf(parquet.ByteArrayType))},
		"JSON":      {text: parquet.Optional(parquet.JSON())},
		"required":  {text: parquet.Required(parquet.String())},
		"column":    {more: parquet.Group{"z": text.node()}},
		"metadata":  {option: parquet.KeyValueMetadata("ARROW:schema", "x")},
	} {
		group := parquet.Group{"n": cmp.Or(c.number, integer.node()), "t": cmp.Or(c.text, text.node()), RowColumn: parquet.Required(parquet.String())}
		maps.Copy(group, c.more)
		var options []parquet.WriterOption
		if c.option != nil {
			options = append(options, c.option)
		}
		var file bytes.Buffer
		out := parquet.NewWriter(&file, append(options, parquet.NewSchema("row", group))...)
		defined := 1
		if group["t"].Required() {
			defined = 0
		}
		line := parquet.Row{parquet.ByteArrayValue([]byte(row)).Level(0, 0, 0), parquet.Int64Value(1700000000000).Level(0, 1, 1), parquet.ByteArrayValue([]byte("x")).Level(0, defined, 2)}
		if c.more != nil {
			line = append(line, parquet.NullValue().Level(0, 0, 3))
		}
		_, err := out.WriteRows([]parquet.Row{line})
		require.NoError(t, err)
		require.NoError(t, out.Close())
		texts, err := readAll(file.Bytes(), FormatParquet)
		require.NoError(t, err, name)
		require.Equal(t, []string{row}, texts, name)
		err = CheckForm(bytes.NewReader(file.Bytes()), int64(file.Len()), FormatParquet)
		if c.ok {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, ErrCellMismatch, name)
		}
	}
}

func TestColumnsAreBounded(t *testing.T) {
	var row strings.Builder
	for i := range 2 * maxColumns {
		fmt.Fprintf(&row, `,"m%d":%d`, i, i)
	}
	text := "{" + row.String()[1:] + "}"
	for _, format := range Formats {
		var file bytes.Buffer
		require.NoError(t, WriteRows(&file, format, rowsOf(text)))
		texts, err := readAll(file.Bytes(), format)
		require.NoError(t, err)
		require.Equal(t, []string{text}, texts)
	}
}

func TestErrorsOfRowsEndTheFile(t *testing.T) {
	broken := errors.New("broken")
	rows := func() iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) { yield(nil, broken) }
	}
	for _, format := range Formats {
		require.ErrorIs(t, WriteRows(new(bytes.Buffer), format, rows), broken)
	}
	require.Error(t, WriteRows(new(bytes.Buffer), "xml", rowsOf()))
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		file, manifest string
		want           []Difference
	}{
		{"abc", "abc", nil},
		{"axc", "abc", []Difference{{"changed", 2, 2}}},
		{"abxc", "abc", []Difference{{"added", 3, 0}}},
		{"ac", "abc", []Difference{{"removed", 0, 2}}},
		{"ab", "abc", []Difference{{"removed", 0, 3}}},
		{"bc", "abc", []Difference{{"removed", 0, 1}}},
		{"abcc", "abc", []Difference{{"added", 4, 0}}},
		{"", "ab", []Difference{{"removed", 0, 1}, {"removed", 0, 2}}},
		{"bac", "abc", []Difference{{"moved", 1, 0}}},
		{"cab", "abc", []Difference{{"moved", 1, 0}}},
		{"bxa", "ab", []Difference{{"moved", 1, 0}, {"added", 2, 0}}},
		{"aab", "aab", nil},
		{"ab", "aab", []Difference{{"removed", 0, 2}}},
	} {
		got := CompareRows([]byte(test.file), []byte(test.manifest), 10)
		require.Equal(t, test.want, got, "%s against %s", test.file, test.manifest)
	}
}

// CompareRows finds a difference if and only if there is one.
func TestCompareFindsEveryDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Byte(), 0, 20)
		a, b := rows.Draw(t, "file"), rows.Draw(t, "manifest")
		require.Equal(t, slices.Equal(a, b), len(CompareRows(a, b, 100)) == 0)
	})
}

func FuzzRead(f *testing.F) {
	for _, format := range Formats {
		var file bytes.Buffer
		require.NoError(f, WriteRows(&file, format, rowsOf(sample...)))
		f.Add(file.Bytes(), string(format))
	}
	f.Fuzz(func(t *testing.T, file []byte, format string) {
		if !slices.Contains(Formats, Format(format)) || len(file) > 1<<16 {
			return
		}
		rows := 0
		for range ReadRows(bytes.NewReader(file), int64(len(file)), Format(format)) {
			if rows++; rows > 1<<16 {
				break
			}
		}
	})
}
