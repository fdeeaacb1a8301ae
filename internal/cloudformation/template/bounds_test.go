package template

import (
	"context"
	"fmt"
	"runtime"
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
	for name, test := range map[string]struct{ body, want string }{
		"brackets":            {"a: " + repeat("["), "Template format error: "},
		"JSON brackets":       {`{"a": ` + repeat("["), "Template format error: "},
		"items":               {metadata("[" + repeat("a,") + "]"), ""},
		"pairs":               {metadata("[" + repeat("a: b,") + "]"), ""},
		"equal keys":          {repeat("a: b\n"), "Invalid template property or properties [a]"},
		"other keys":          {each("k%d: a\n"), "Invalid template property or properties [k0, "},
		"resources":           {"Resources:\n" + each("  k%d: {Type: a}\n"), "Template format error: Number of resources"},
		"references":          {metadata("[" + repeat("!Ref AWS::Region,") + "]"), ""},
		"unresolved":          {metadata("[" + each("!Ref k%d,") + "]"), "Template format error: Unresolved resource dependencies [k0, "},
		"a long name":         {metadata("!Ref " + repeat("x")), "Template format error: Unresolved resource dependencies [xxxx"},
		"short variables":     {metadata("!Sub '" + repeat("${P}") + "'"), "Template error: the values of functions are larger than"},
		"parameters":          {metadata("[" + repeat("!Ref P,") + "]"), "Template error: the values of functions are larger than"},
		"nested Sub":          {metadata(sub), "Template error: the values of functions are larger than"},
		"nested Join":         {metadata(join), ""},
		"nested If":           {"Conditions: {C: !Equals [a, a]}\n" + metadata(ifs), ""},
		"conditions":          {conditions.String() + gateway, ""},
		"nested loops":        {extended("Resources: " + loops), "Transform AWS::LanguageExtensions failed with: the expanded template is larger than"},
		"a loop":              {extended("Resources: {'Fn::ForEach::L': [I, !Split [',', '" + repeat("a,") + "'], {G: {Type: a}}]}"), "Transform AWS::LanguageExtensions failed with: Duplicate key"},
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

// TestValuesOfResourcesAreBounded gives attributes that are large, as those of nested stacks may be.
func TestValuesOfResourcesAreBounded(t *testing.T) {
	t.Parallel()
	b, err := bindText(t, "Resources:\n  V: {Type: AWS::EC2::VPC}\n  W: {Type: AWS::EC2::VPC, Metadata: {a: ["+
		strings.Repeat("!GetAtt V.CidrBlock,", 1000)+"]}}\n", Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Evaluate(context.Background(), b.Resource("W").Metadata, large{})
	if err == nil || err.Error() != errTooLarge.Message {
		t.Errorf("got %v", err)
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
