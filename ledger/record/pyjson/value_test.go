package pyjson

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValues(t *testing.T) {
	root := parse(t, ` {"n": null, "f":false,"t":true, "i":-12 ,"d":1.50,"s":"a\u00e9\n\ud83c\udfb5","p":"plain",
		"a":[1,[2,{}],"x"],"o":{"z":{},"a":1},"":0} `)
	require.Equal(t, Object, root.Kind())
	require.Equal(t, 10, root.Len())
	for name, want := range map[string]struct {
		kind  Kind
		given bool
		raw   string
		text  string
		len   int
	}{
		"n":    {Null, false, "null", "", 0},
		"f":    {False, true, "false", "", 0},
		"t":    {True, true, "true", "", 0},
		"i":    {Integer, true, "-12", "", 0},
		"d":    {Float, true, "1.50", "", 0},
		"s":    {String, true, `"a\u00e9\n\ud83c\udfb5"`, "aé\n🎵", 0},
		"p":    {String, true, `"plain"`, "plain", 0},
		"a":    {Array, true, `[1,[2,{}],"x"]`, "", 3},
		"o":    {Object, true, `{"z":{},"a":1}`, "", 2},
		"":     {Integer, true, "0", "", 0},
		"none": {Absent, false, "", "", 0},
	} {
		v := root.Member(name)
		require.Equal(t, want.kind, v.Kind(), name)
		require.Equal(t, want.given, v.IsGiven(), name)
		require.Equal(t, want.raw, string(v.Raw()), name)
		require.Equal(t, want.text, string(v.Text()), name)
		require.Equal(t, want.len, v.Len(), name)
	}
	require.Zero(t, root.Member("a").Member("a"), "only objects have members")

	var names, kinds []string
	for name, value := range root.Member("o").Members() {
		names = append(names, string(name.Text()))
		kinds = append(kinds, string(value.Raw()))
	}
	require.Equal(t, []string{"z", "a"}, names, "source order")
	require.Equal(t, []string{"{}", "1"}, kinds)

	var elements []string
	for element := range root.Member("a").Elements() {
		elements = append(elements, string(element.Raw()))
	}
	require.Equal(t, []string{"1", "[2,{}]", `"x"`}, elements)
	for range root.Elements() {
		t.Fatal("an object has no elements")
	}
	require.Equal(t, `[1, [2, {}], "x"]`, string(root.Member("a").AppendCanonical(nil, SpacedForm)))
	require.Equal(t, `x{"a":1,"z":{}}`, string(root.Member("o").AppendCanonical([]byte("x"), CompactForm)))
}

func TestAbsentValue(t *testing.T) {
	var v Value
	require.Equal(t, Absent, v.Kind())
	require.False(t, v.IsGiven())
	require.Empty(t, v.Raw())
	require.Nil(t, v.Text())
	require.Zero(t, v.Len())
	require.Zero(t, v.Member("a"))
	require.Equal(t, "x", string(v.AppendCanonical([]byte("x"), SpacedForm)))
	_, ok := v.Float()
	require.False(t, ok)
	_, found := v.FindLoneSurrogate()
	require.False(t, found)
	for range v.Members() {
		t.Fatal("no members")
	}
	for range v.Elements() {
		t.Fatal("no elements")
	}
}

func TestNumbers(t *testing.T) {
	huge := "1" + strings.Repeat("0", 4299)
	for _, c := range []struct {
		source    string
		canonical string
		float     float64
		inRange   bool
	}{
		{"0", "0", 0, true},
		{"-0", "0", 0, true},
		{"-17", "-17", -17, true},
		{"9007199254740993", "9007199254740993", 9007199254740992, true},
		{huge, huge, 0, false},
		{"-0.0", "-0.0", math.Copysign(0, -1), true},
		{"0e0", "0.0", 0, true},
		{"1.10", "1.1", 1.1, true},
		{"1E2", "100.0", 100, true},
		{"1e16", "1e+16", 1e16, true},
		{"9999999999999998.0", "9999999999999998.0", 9999999999999998, true},
		{"0.0001", "0.0001", 1e-4, true},
		{"0.00001", "1e-05", 1e-5, true},
		{"2e-324", "0.0", 0, true},
		{"5e-324", "5e-324", 5e-324, true},
		{"0.30000000000000004", "0.30000000000000004", 0.1 + 0.2 + 0x1p-54, true},
		{"0.29999999999999999", "0.3", 0.3, true},
		{"0.1000000000000000055511151231257827", "0.1", 0.1, true},
		{"1" + strings.Repeat("0", 1000) + "e-1000", "1.0", 1, true},
	} {
		v := parse(t, c.source)
		require.Equal(t, c.canonical, string(v.AppendCanonical(nil, CompactForm)), "%.40s", c.source)
		f, ok := v.Float()
		require.Equal(t, c.inRange, ok, "%.40s", c.source)
		if ok {
			require.Equal(t, math.Float64bits(c.float), math.Float64bits(f), "%.40s", c.source)
		}
		integer, ok := v.AppendInteger([]byte("x"))
		if v.Kind() == Integer {
			require.True(t, ok)
			require.Equal(t, "x"+c.canonical, string(integer))
		} else {
			require.False(t, ok)
			require.Equal(t, "x", string(integer))
		}
	}
	_, ok := parse(t, `"1"`).Float()
	require.False(t, ok)
	_, ok = parse(t, `"1"`).AppendInteger(nil)
	require.False(t, ok)
}

func TestAppendFloatNotFinite(t *testing.T) {
	require.Equal(t, "nan", string(AppendFloat(nil, math.NaN())))
	require.Equal(t, "inf", string(AppendFloat(nil, math.Inf(1))))
	require.Equal(t, "-inf", string(AppendFloat(nil, math.Inf(-1))))
}

func TestMembersAreSortedByCodePoint(t *testing.T) {
	// In UTF-16 order, U+1F3B5 would come before U+E000. If the names were compared in escaped form,
	// their backslashes would affect the order.
	source := `{"\ue000":1,"🎵":2,"\udfff":3,"\ud7ff":4,"é":5,"z":6,"\"":7,"\n":8,"":9,"zz":10,"aaaaaaaab":11,"aaaaaaaa":12,"a\u0000":13,"a":14}`
	want := "{\"\":9,\"\\n\":8,\"\\\"\":7,\"a\":14,\"a\\u0000\":13,\"aaaaaaaa\":12,\"aaaaaaaab\":11,\"z\":6,\"zz\":10,\"é\":5," +
		"\"\ud7ff\":4,\"\xed\xbf\xbf\":3,\"\ue000\":1,\"🎵\":2}"
	require.Equal(t, want, string(parse(t, source).AppendCanonical(nil, CompactForm)))
}
