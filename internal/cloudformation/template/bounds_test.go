package template

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestHostileTemplates binds large templates that are made to cost. It does not run in parallel with other tests,
// because it measures the memory of the process.
func TestHostileTemplates(t *testing.T) {
	// A fifth of what a template may have shows all but how long it takes.
	const size = MaxBody / 5
	repeat := func(text string) string { return strings.Repeat(text, size/len(text)) }
	each := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	metadata := func(value string) string {
		return "Resources: {V: {Type: AWS::EC2::VPC, Metadata: {a: " + value + "}}}\n"
	}
	// Each level of these doubles what is below it.
	sub, join, ifs := "x", "x", "x"
	for range 30 {
		sub = `{"Fn::Sub": ["${a}${a}", {"a": ` + sub + `}]}`
		join = `{"Fn::Join": ["", [` + join + `, "x"]]}`
		ifs = `{"Fn::If": ["C", ` + ifs + `, "x"]}`
	}
	name := "G"
	for i := range 20 {
		name += fmt.Sprintf("${I%d}", i)
	}
	loops := "{'" + name + "': {Type: AWS::EC2::VPC}}"
	for i := range 20 {
		loops = fmt.Sprintf("{'Fn::ForEach::L%d': [I%d, ['1', '2', '3', '4'], %s]}", i, i, loops)
	}
	var conditions strings.Builder
	conditions.WriteString("Conditions:\n  C0: !Equals [a, a]\n")
	for i := 1; i < 900; i++ {
		fmt.Fprintf(&conditions, "  C%d: !And [!Condition C%d, !Condition C%d, !Condition C%d]\n", i, i-1, i-1, i-1)
	}
	value := strings.Repeat("v", maxParameterSize)
	loop := func(member string) string {
		return extended("Resources: {'Fn::ForEach::L': [I, ['" + value + "'], {G: {Type: AWS::EC2::VPC, " + member + "}}]}")
	}
	numbers := `"Parameters": {"P": {"Type": "List<Number>", "Default": "` + strings.Repeat("1,", maxParameterSize/2-1) + `1"}}`
	for name, test := range map[string]struct{ body, want string }{
		"brackets":        {"a: " + repeat("["), "Template format error: "},
		"JSON brackets":   {`{"a": ` + repeat("["), "Template format error: "},
		"items":           {metadata("[" + repeat("a,") + "]"), ""},
		"pairs":           {metadata("[" + repeat("a: b,") + "]"), "Template error: the metadata of resource V have more values than coracle accepts"},
		"equal keys":      {repeat("a: b\n"), "Invalid template property or properties [a]"},
		"other keys":      {each("k%d: a\n"), "Invalid template property or properties [k0, "},
		"resources":       {"Resources:\n" + each("  k%d: {Type: a}\n"), "Template format error: Number of resources"},
		"references":      {metadata("[" + repeat("!Ref AWS::Region,") + "]"), ""},
		"unresolved":      {metadata("[" + each("!Ref k%d,") + "]"), "Template format error: Unresolved resource dependencies [k0, "},
		"a long name":     {metadata("!Ref " + repeat("x")), "Template format error: Unresolved resource dependencies [xxxx"},
		"short variables": {metadata("!Sub '" + repeat("${P}") + "'"), "Template error: the values of functions are larger than"},
		"parameters":      {metadata("[" + repeat("!Ref P,") + "]"), "Template error: the values of functions are larger than"},
		"nested Sub":      {metadata(sub), "Template error: the values of functions are larger than"},
		"nested Join":     {metadata(join), ""},
		"nested If":       {"Conditions: {C: !Equals [a, a]}\n" + metadata(ifs), ""},
		"conditions":      {conditions.String() + gateway, ""},
		"nested loops":    {extended("Resources: " + loops), "Transform AWS::LanguageExtensions failed with: the expanded template is larger than"},
		"a loop":          {extended("Resources: {'Fn::ForEach::L': [I, !Split [',', '" + repeat("a,") + "'], {G: {Type: a}}]}"), "Transform AWS::LanguageExtensions failed with: Duplicate key"},
		"names of a loop": {
			loop("DependsOn: '" + repeat("${I}") + "'"),
			"Transform AWS::LanguageExtensions failed with: the expanded template is larger than",
		},
		"texts of a loop": {
			loop("Metadata: {a: !Sub '" + repeat("${I}") + "'}"),
			"Transform AWS::LanguageExtensions failed with: the expanded template is larger than",
		},
		"attributes of a loop": {
			loop("Metadata: {a: !GetAtt '" + repeat("${I}") + "'}"),
			"Transform AWS::LanguageExtensions failed with: the expanded template is larger than",
		},
		"a mapping of itself": {
			extended("Mappings: {M: {k: {a: !FindInMap [M, k, a]}}}\n" + metadata("!FindInMap [M, k, a]")),
			"Template format error: Nesting depth is greater than",
		},
		"values of rules": {
			"{" + numbers + `, "Rules": {"R": {"Assertions": [` +
				repeat(`{"Assert":{"Fn::EachMemberIn":[{"Fn::RefAll":"List<Number>"},{"Fn::RefAll":"List<Number>"}]}},`) +
				`{"Assert":{"Fn::Equals":[1,1]}}]}}, "Resources": {"V": {"Type": "AWS::EC2::VPC"}}}`,
			"Template error: the values of functions are larger than",
		},
		"references of a long name": {
			`{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"` + strings.Repeat("k", size/2) + `": [` +
				strings.Repeat(`"{{resolve:",`, size/30) + `"a"]}}}}`,
			"Properties validation failed for resource V",
		},
		"a number of many digits": {
			`{"Resources": {"V": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 1.` +
				repeat("0") + `}}}}`,
			"Properties validation failed for resource V",
		},
		"JSON that functions make": {jsonTexts(1, 1000), "Template error: the properties of resource A0 have "},
		"objects in JSON that functions make": {
			jsonTexts(1, 30), "Template error: the properties of resource A0 have more values than coracle accepts",
		},
		"much JSON that functions make": {
			jsonTexts(60, 7), "Template error: the values of all functions are larger than",
		},
		"objects of a loop": {
			extended("Resources: {'Fn::ForEach::L': [I, [" + each("a%d,") + "], {'G${I}': {Type: a, Metadata: [" +
				strings.Repeat("{},", 100) + "]}}]}"),
			"Transform AWS::LanguageExtensions failed with: the expanded template is larger than",
		},
		"blocks of addresses": {metadata("[" + repeat("!Cidr [0.0.0.0/0, 256, 8],") + "]"), "Template error: the values of functions are larger than"},
		"dynamic references":  {vpc("'" + repeat("{{resolve:ssm:a}}") + "'"), "Template error: the number of dynamic references is greater than"},
		"an open reference":   {vpc("'" + repeat("{{resolve:") + "'"), ""},
		"escapes":             {vpc("!Sub '" + repeat("${!a}") + "'"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			body := strings.Replace(test.body, "Resources:", "Parameters: {P: {Type: String}}\nResources:", 1)
			runtime.ReadMemStats(&before)
			inputs := Inputs{}
			if strings.Contains(body, "Parameters: {P") {
				inputs.Parameters = given("P", value)
			}
			_, err := bindText(t, body, inputs)
			runtime.ReadMemStats(&after)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
				t.Errorf("got %.200v, want %s", err, test.want)
			case err != nil && len(err.Error()) > maxMessage+10:
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			// All that was allocated, most of which is garbage at once: some 50 MB at most.
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 150 {
				t.Errorf("%d MiB were allocated", used)
			}
		})
	}
}

// jsonTexts returns a template of policies, whose documents are JSON that Fn::Sub makes of a small parameter.
func jsonTexts(resources, times int) string {
	var b strings.Builder
	for i := range resources {
		fmt.Fprintf(&b, `, "A%d": {"Type": "AWS::IAM::ManagedPolicy", "Properties":
			{"PolicyDocument": {"Fn::Sub": "[%s{}]"}}}`, i, strings.Repeat("${T}", times))
	}
	return `{"Parameters": {"T": {"Type": "String", "Default": ` +
		strconv.Quote(strings.Repeat(`{"":0},`, maxParameterSize/7)) + `}}, "Resources": {` + strings.TrimPrefix(b.String(), ",") + `}}`
}

// TestMemoryOfTemplatesIsHeld binds templates that are small, and become large: memory is taken for what they become,
// and what cannot be taken ends them.
func TestMemoryOfTemplatesIsHeld(t *testing.T) {
	t.Parallel()
	var items []string
	for i := range 400 {
		items = append(items, fmt.Sprintf("a%d", i))
	}
	vpcs := ""
	for i := range 20 {
		vpcs += fmt.Sprintf("V%d: {Type: AWS::EC2::VPC, Metadata: {a: [%s]}},", i, strings.Repeat("!Ref P,", 60))
	}
	for name, test := range map[string]struct {
		body  string
		least int64 // bytes
	}{
		"a small one": {gateway, 0},
		"a loop": {extended("Resources: {'Fn::ForEach::L': [I, [" + strings.Join(items, ",") + "], {'G${I}': {Type: " +
			"AWS::EC2::VPC, Metadata: {a: [" + strings.Repeat("{},", 50) + "]}}}]}"), 400 * 50 * objectSize},
		"functions": {"Parameters: {P: {Type: String}}\nResources: {" + vpcs + "}", 20 * 60 * maxParameterSize},
		"JSON":      {jsonTexts(2, 7), 2 * 7 * 585 * objectSize},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := Parse(test.body)
			if err != nil {
				t.Fatal(err)
			}
			held := int64(0)
			in := Inputs{Hold: func(bytes int64) error {
				held += bytes
				return nil
			}}
			if strings.Contains(test.body, "Parameters: {P") {
				in.Parameters = given("P", strings.Repeat("v", maxParameterSize))
			}
			b, err := parsed.Bind(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			all := b.NewEvaluation()
			for _, id := range b.LogicalIDs() {
				if _, _, err := all.Evaluate(t.Context(), id, nil); err != nil {
					t.Fatal(err)
				}
			}
			if held < test.least || test.least == 0 && held > 0 {
				t.Errorf("%d bytes are held, want %d at least", held, test.least)
			}
			full := errors.New("full")
			in.Hold = func(int64) error { return full }
			if _, err := parsed.Bind(t.Context(), in); test.least > 0 && !errors.Is(err, full) {
				t.Errorf("without memory: %v", err)
			}
		})
	}
}

// TestKeptValuesAreBoundedTogether evaluates resources whose values are unknown before others exist.
func TestKeptValuesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	body.WriteString("Resources:\n  V: {Type: AWS::EC2::VPC}\n")
	for i := range 100 {
		fmt.Fprintf(&body, "  W%d: {Type: AWS::EC2::VPC, Metadata: {a: [%s]}}\n", i,
			strings.Repeat("!GetAtt V.CidrBlock,", 2))
	}
	b, err := bindText(t, body.String(), Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	all := b.NewEvaluation()
	for i := 0; err == nil && i < 100; i++ {
		_, _, err = all.Evaluate(t.Context(), fmt.Sprintf("W%d", i), large{})
	}
	if err == nil || err.Error() != errAllTooLarge.Message {
		t.Errorf("got %v", err)
	}
}

// TestMetadataIsBounded makes large metadata of small templates: it is refused before it is encoded.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	const body = "Parameters: {P: {Type: String}}\nResources: {V: {Type: AWS::EC2::VPC}, W: {Type: AWS::EC2::VPC, Metadata: " +
		"{a: [%s]}}}"
	in := Inputs{Parameters: given("P", strings.Repeat("v", maxParameterSize))}
	_, err := bindText(t, fmt.Sprintf(body, strings.Repeat("!Ref P,", 65)), in)
	if want := "Template error: the metadata of resource W have 266241 bytes"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("metadata of parameters: got %v", err)
	}
	b, err := bindText(t, fmt.Sprintf(body, strings.Repeat("!GetAtt V.CidrBlock,", 3)), in)
	if err != nil {
		t.Fatal(err)
	}
	_, known := b.Metadata(t.Context(), "W", large{})
	_, _, planned := b.NewEvaluation().Evaluate(t.Context(), "W", large{})
	for _, err := range []error{known, planned} {
		if want := "Template error: the metadata of resource W have 300001 bytes"; err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("metadata of attributes: got %v", err)
		}
	}
}

// openVariables are texts, to be repeated, in which variables of loops begin and do not end, after one without any.
var openVariables = []string{"{.", "${", "&{", "${I"}

// substituteOpen expands a text of MaxBody bytes.
func substituteOpen(t testing.TB, part string) {
	t.Helper()
	x := &expander{evaluator: evaluator{bound: &Bound{}, literals: map[string]any{"I": "v"}}}
	text := strings.Repeat(part, MaxBody/len(part))
	if got, err := x.substitute(text, true); err != nil || got != text {
		t.Fatalf("got %.20s, %v", got, err)
	}
}

// BenchmarkOpenVariablesOfLoops measures long texts in which variables begin and do not end: they take about as long as
// others.
func BenchmarkOpenVariablesOfLoops(b *testing.B) {
	for _, part := range openVariables {
		b.Run(part, func(b *testing.B) {
			for b.Loop() {
				substituteOpen(b, part)
			}
		})
	}
}

func TestOpenVariablesOfLoops(t *testing.T) {
	t.Parallel()
	for _, part := range openVariables {
		substituteOpen(t, part)
	}
	body := extended("Resources: {'Fn::ForEach::L': [" + strings.Repeat("I", maxName+1) + ", [a], {G: {Type: a}}]}")
	_, err := bindText(t, body, Inputs{})
	want := "Transform AWS::LanguageExtensions failed with: Fn::ForEach layout is incorrect for Fn::ForEach::L"
	if err == nil || err.Error() != want {
		t.Errorf("a long identifier: got %v", err)
	}
}

// TestValuesOfResourcesAreBounded gives attributes that are large, as those of nested stacks may be.
func TestValuesOfResourcesAreBounded(t *testing.T) {
	t.Parallel()
	b, err := bindText(t, "Resources:\n  V: {Type: AWS::EC2::VPC}\n  W: {Type: AWS::EC2::VPC, Metadata: {a: ["+
		strings.Repeat("!GetAtt V.CidrBlock,", 1000)+"]}}\n", Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Metadata(context.Background(), "W", large{})
	if err == nil || err.Error() != errTooLarge.Message {
		t.Errorf("got %v", err)
	}
}

// TestPatternsAreBoundedTogether gives parameters patterns that are large together, and long values.
func TestPatternsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	one := strings.Repeat(`(?:[a-z]{1,100}){0,9}`, 12) // some 10,000 instructions
	var b strings.Builder
	b.WriteString("Parameters:\n")
	for i := range 10 {
		fmt.Fprintf(&b, "  P%d: {Type: String, Default: a, AllowedPattern: '%s'}\n", i, one)
	}
	_, err := bindText(t, b.String()+gateway, Inputs{})
	if want := "must be a valid regular expression."; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	long := strings.Repeat("a", maxParameterSize)
	_, err = bindText(t, "Parameters:\n  P: {Type: String, AllowedPattern: '"+one+one+"'}\n"+gateway,
		Inputs{Parameters: given("P", long)})
	if want := "Parameter 'P' must match pattern"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %.100v, want %s", err, want)
	}
	if _, err = bindText(t, "Parameters:\n  P: {Type: String, AllowedPattern: '"+one+one+"'}\n"+gateway,
		Inputs{Parameters: given("P", "a")}); err != nil {
		t.Error(err)
	}
}

// TestFewThingsAreAskedFor gives templates that need the same again and again of what is outside of them.
func TestFewThingsAreAskedFor(t *testing.T) {
	t.Parallel()
	zones, parameters := 0, 0
	var asked []string
	in := Inputs{
		Zones: func(context.Context, string) ([]string, error) {
			zones++
			return []string{"a", "b"}, nil
		},
		Exists: func(_ context.Context, _ string, ids []string) error {
			asked = append(asked, ids...)
			return nil
		},
		Parameter: func(context.Context, string, bool) (StoredParameter, error) {
			parameters++
			return StoredParameter{Type: "String", Value: "v"}, nil
		},
	}
	body := "Resources: {V: {Type: AWS::EC2::VPC, Metadata: {a: [" + strings.Repeat("!GetAZs '',", 1000) + "]}}}"
	if _, err := bindText(t, body, in); err != nil || zones != 1 {
		t.Errorf("zones were asked for %d times, %v", zones, err)
	}
	keys := "Parameters: {K: {Type: 'List<AWS::EC2::KeyPair::KeyName>'}, L: {Type: AWS::EC2::KeyPair::KeyName}}\n"
	in.Parameters = given("K", strings.Repeat("a,", 1000)+"b", "L", "b")
	if _, err := bindText(t, keys+gateway, in); err != nil || strings.Join(asked, ",") != "a,b" {
		t.Errorf("key pairs %q were asked for, %v", asked, err)
	}
	in.Parameters = given("P", strings.Repeat("{{resolve:ssm:a:1}}", 100))
	_, err := bindText(t, "Parameters: {P: {Type: String}}\n"+gateway, in)
	if err == nil || !strings.HasPrefix(err.Error(), "Template error: the number of dynamic references") ||
		parameters > maxDynamic {
		t.Errorf("%d parameters were asked for, %v", parameters, err)
	}
}

// TestNothingIsLockedWhileZonesAreAskedFor asks for zones, and looks at what others need to evaluate the template.
func TestNothingIsLockedWhileZonesAreAskedFor(t *testing.T) {
	t.Parallel()
	asked := 0
	b := &Bound{}
	b.inputs.Zones = func(context.Context, string) ([]string, error) {
		if asked++; !b.zonesMu.TryLock() {
			return nil, errors.New("others wait for the answer")
		}
		b.zonesMu.Unlock()
		return []string{"a"}, nil
	}
	for range 2 {
		if names, err := b.zonesOf(t.Context(), "eu-west-1"); err != nil || len(names) != 1 || asked != 1 {
			t.Errorf("the zones are %q, asked for %d times: %v", names, asked, err)
		}
	}
}

type large struct{ made }

func (large) Attribute(string, string) (any, bool, error) {
	return strings.Repeat("x", 100_000), true, nil
}

// BenchmarkBind parses and binds a template of 200 resources.
func BenchmarkBind(b *testing.B) {
	var body strings.Builder
	body.WriteString("Resources:\n")
	for i := range 200 {
		fmt.Fprintf(&body, "  V%d: {Type: AWS::EC2::VPC, Properties: {CidrBlock: !Sub '10.%d.0.0/16', Tags: [{Key: Name, "+
			"Value: !Sub '${AWS::StackName}/V%d'}]}}\n", i, i, i)
	}
	for b.Loop() {
		if _, err := bindText(b, body.String(), Inputs{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMemoryOfKeptTemplates checks that what is kept of a small template with large loops is what LoopSize tells at
// most.
//
//nolint:paralleltest // others would take memory meanwhile
func TestMemoryOfKeptTemplates(t *testing.T) {
	items := make([]string, 200)
	for i := range items {
		items[i] = fmt.Sprintf("a%d", i)
	}
	loop := "'Fn::ForEach::L': [I, [" + strings.Join(items, ",") + "], {'G${I}': "
	many := "{a: [" + strings.Repeat("{a: b},", 110) + "]}"
	for name, body := range map[string]string{
		"a condition that does not hold": "Conditions: {C: {'Fn::Equals': [a, b]}}\nResources: {V: {Type: AWS::EC2::VPC}, " +
			loop + "{Type: AWS::EC2::VPC, Condition: C, Metadata: " + many + "}}]}",
		"resources": "Resources: {" + loop + "{Type: AWS::EC2::VPC, Metadata: " + many + "}}]}",
		"mappings": "Mappings: {" + loop + "{b: {c: " + "[" + strings.Repeat("b,", 110) + "]}}}]}\n" +
			"Resources: {V: {Type: AWS::EC2::VPC}}",
	} {
		body = extended(body)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		bound, err := bindText(t, body, Inputs{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		bound.DropProcessed()
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept, most := int64(after.HeapAlloc-before.HeapAlloc), int64(64<<10+60*len(body))+bound.LoopSize()
		if kept > most || bound.LoopSize() < 200*110*nodeSize {
			t.Errorf("%s: a template of %d bytes keeps %d, counted as %d", name, len(body), kept, most)
		}
		runtime.KeepAlive(bound)
	}
}
