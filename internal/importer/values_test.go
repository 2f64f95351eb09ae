package importer

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/formats"
)

// valuesOf returns the values in a file and the error messages, each with its position.
func valuesOf(text string, maxLine int, table bool) (list []string, wrong []string) {
	in := &input{name: "-", stdin: bytes.NewReader([]byte(text)), maxLine: maxLine}
	for l, err := range in.values(table) {
		if err != nil {
			wrong = append(wrong, l.place()+": "+err.Error())
			continue
		}
		list = append(list, l.place()+" "+string(l.text))
	}
	return list, wrong
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
		wrong      string // beginning of the only error message; empty if there is none
	}{
		{"lines", "{\"a\":1}\n\n{\"a\":2}", []string{`-:1 {"a":1}`, `-:3 {"a":2}`}, ""},
		{"a byte order mark", "\xef\xbb\xbf{\"a\":1}", []string{`-:1 {"a":1}`}, ""},
		{"an array", "[{\"a\":1},\n {\"a\": 2 }]\n", []string{`-: record 1 {"a":1}`, `-: record 2 {"a":2}`}, ""},
		{"an array that keeps its texts", `[{"a":"\ud800<\u00e9","n":1e400}]`, []string{`-: record 1 {"a":"\ud800<\u00e9","n":1e400}`}, ""},
		{"an empty array", "[]", nil, ""},
		{"an array that ends", `[{"a":1},{"a":`, []string{`-: record 1 {"a":1}`}, "-: record 2: the array is truncated or damaged at this element; the rest of the array was not sent"},
		{"an object on several lines", "{\n  \"a\": 1\n}\n", []string{`-:1 {"a":1}`}, ""},
		{"a damaged first line", "{\"a\":\n{\"a\":2}\n", []string{`-:1 {"a":`, `-:2 {"a":2}`}, ""},
		{"a damaged line", "{\"a\":1}\n{\"a\":\n{\"a\":2}\n", []string{`-:1 {"a":1}`, `-:2 {"a":`, `-:3 {"a":2}`}, ""},
		{"nothing", "", nil, "-:1: the file is empty"},
		{"white space", " \n\t\n", nil, "-:1: the file is empty"},
		{"Parquet", "PAR1\x15\x04", nil, "-:1: the input is a Parquet file; to import Phoenix spans, name the file"},
		{"a long line", "{\"a\":1}\n{\"a\":\"" + strings.Repeat("x", 100) + "\"}\n{\"a\":3}", []string{`-:1 {"a":1}`, `-:3 {"a":3}`}, "-:2: the line is too long (the limit is 50 bytes)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, wrong := valuesOf(c.text, 50, false)
			require.Equal(t, c.want, list)
			if c.wrong == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			require.Contains(t, wrong[0], c.wrong)
		})
	}
}

// A line from a pipe is yielded as soon as it has arrived.
func TestLinesOfAPipe(t *testing.T) {
	read, write := io.Pipe()
	first := `{"a":"` + strings.Repeat("x", 100) + `"}`
	go func() { _, _ = io.WriteString(write, first+"\n") }()
	in := &input{name: "-", stdin: read, maxLine: 1000}
	n := 0
	for l, err := range in.values(false) {
		require.NoError(t, err)
		if n++; n == 1 {
			require.Equal(t, first, string(l.text))
			go func() { _, _ = io.WriteString(write, "{}\n"); write.Close() }()
		}
	}
	require.Equal(t, 2, n)
}

func TestValuesOfTables(t *testing.T) {
	list, wrong := valuesOf("id,input,output\n1,\"[{\"\"role\"\": \"\"user\"\"}]\",\"a, \"\"b\"\"\nc\"\n2,[1,\n3,x\n4,{broken,\n", 100, true)
	require.Equal(t, []string{`-: record 1 {"id":"1","input":[{"role": "user"}],"output":"a, \"b\"\nc"}`, `-: record 2 {"id":"2","input":"[1","output":null}`,
		`-: record 4 {"id":"4","input":"{broken","output":null}`}, list)
	require.Equal(t, []string{"-: record 3: the row has 2 cells, but the header has 3 columns"}, wrong)
	list, _ = valuesOf("id,output\r\n1,\"a\r\nb\nc\rd\"\"\r\n\"\r\n2,b\r\n", 100, true)
	require.Equal(t, []string{`-: record 1 {"id":"1","output":"a\r\nb\nc\rd\"\r\n"}`, `-: record 2 {"id":"2","output":"b"}`}, list)
	_, wrong = valuesOf("hello\nworld\n", 100, true)
	require.Equal(t, []string{"-:1: the file is neither JSON nor CSV with a header line"}, wrong)
}

// An element that is too long is refused before it has been read to its end.
func TestValuesAreBounded(t *testing.T) {
	_, wrong := valuesOf(`[{"a":"`+strings.Repeat("x", 1<<20)+`"}]`, 1000, false)
	require.Equal(t, []string{"-: record 1: the element is longer than 1000 bytes; the rest of the array, including the element, was not sent"}, wrong)
}

func TestRecordsThatStandAlone(t *testing.T) {
	const alone = `{"model":"m","payload":{"a":1}}`
	l := line{text: []byte(alone)}
	require.ErrorContains(t, newKeyer().complete(&l, ""), "use --kind ipc_record")
	require.NoError(t, newKeyer().complete(&l, "ipc_record"))
	same := line{text: []byte(`{"kind":"ipc_record","record":` + alone + `}`)}
	require.NoError(t, newKeyer().complete(&same, ""))
	require.Equal(t, string(same.text), string(l.text))
	for _, text := range []string{`{"kind":"ipc_record"}`, `{"record":{}}`, `[1]`, `{`, `7`} {
		l := line{text: []byte(text)}
		require.NoError(t, newKeyer().complete(&l, "ipc_record"))
		require.Equal(t, text, string(l.text), "the server says what is wrong")
	}
}

// All forms of a Langfuse export result in the same records.
func TestFormsOfAnExport(t *testing.T) {
	const first = `{"id":"1","type":"GENERATION","model":"m","input":[{"role":"user","content":"Why?"}],"output":"Because."}`
	const second = `{"id":"2","type":"SPAN","model":null,"input":"x","output":null}`
	for name, text := range map[string]string{
		"lines": first + "\n" + second,
		"array": "[\n" + first + ",\n" + second + "]",
		"page":  "{\n\"data\": [" + first + "," + second + "],\n\"meta\": {}}",
		"table": "id,type,model,input,output\n1,GENERATION,m,\"[{\"\"role\"\":\"\"user\"\",\"\"content\"\":\"\"Why?\"\"}]\",Because.\n2,SPAN,,x,\n",
	} {
		t.Run(name, func(t *testing.T) {
			tally, report := imported(t, formats.Langfuse, map[string]string{"file": text})
			require.Equal(t, 1, tally.Total().Accepted, tally.Failures)
			require.Zero(t, tally.Total().Refused, tally.Failures)
			all := fmt.Sprint(report)
			require.Contains(t, all, "taken as payload/messages")
			require.Contains(t, all, "an observation of type SPAN is not a generation")
		})
	}
}

func FuzzValues(f *testing.F) {
	f.Add([]byte("[{\"a\":1},{\"b\":[2]}]"), false)
	f.Add([]byte("{\n\"a\": 1}"), false)
	f.Add([]byte("a,b\n1,\"{\"\"c\"\":1}\"\n"), true)
	f.Fuzz(func(t *testing.T, text []byte, table bool) {
		if bytes.HasPrefix(text, gzipMagic) || bytes.HasPrefix(text, zstdMagic) {
			return
		}
		in := &input{name: "-", stdin: bytes.NewReader(text), maxLine: 1000}
		for l, err := range in.values(table) {
			if err == nil {
				require.NotEmpty(t, bytes.TrimSpace(l.text))
				require.NotContains(t, string(l.text), "\n", "a value is one line of a batch")
			}
		}
	})
}
