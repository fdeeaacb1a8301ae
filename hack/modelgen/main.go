// Command modelgen writes the wire models that package model serves: names, types and bindings of every member of every
// operation, without documentation. Run it with go generate in package model after changing the version of an SDK
// module.
//
// The source is the Go code of aws-sdk-go-v2 itself, at exactly the versions that go.mod pins. The other source would
// have been the API models in github.com/aws/aws-sdk-go v1 (api-2.json), but these stopped changing in mid 2025:
// operations and members that the pinned SDK knows would be missing. The generated serializers, deserializers and
// validators of v2 hold everything that a server needs, in a handful of regular statements, and they cannot disagree
// with the structures that handlers use:
//
//   - serializers.go:   object.Key("Tags"), value.Array("member")              the parameter names of requests
//   - deserializers.go: strings.EqualFold("vpcSet", t.Name.Local)              the element names of responses
//   - validators.go:    invalidParams.Add(smithy.NewErrParamRequired("Name"))  required members
//   - types, api_op_*:  the structures, their order and types; unions; errors
//
// In a JSON service whose package has no schemas, the same statements say where members travel:
//
//   - serializers.go:   httpbinding.SplitURI("/2015-02-01/file-systems")       the path of an operation
//   - serializers.go:   encoder.SetQuery("MaxItems"), encoder.SetURI(...)      members outside of the body
//   - deserializers.go: case "FileSystemId":                                   the members of responses
//
// The v1 models add what v2 leaves out, where they know the member: length, range and pattern, the HTTP status of the
// errors of services without schemas, and that of the answers of their operations.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const v1Module = "github.com/aws/aws-sdk-go@v1.55.8"

// services are the SDK packages, with the directory of their v1 model.
var services = []struct{ name, v1 string }{
	{"acm", "acm/2015-12-08"},
	{"autoscaling", "autoscaling/2011-01-01"},
	{"cloudformation", "cloudformation/2010-05-15"},
	{"cloudtrail", "cloudtrail/2013-11-01"},
	{"cloudwatch", "monitoring/2010-08-01"},
	{"cloudwatchlogs", "logs/2014-03-28"},
	{"ec2", "ec2/2016-11-15"},
	{"ecr", "ecr/2015-09-21"},
	{"efs", "elasticfilesystem/2015-02-01"},
	{"eks", "eks/2017-11-01"},
	{"elasticloadbalancing", "elasticloadbalancing/2012-06-01"},
	{"elasticloadbalancingv2", "elasticloadbalancingv2/2015-12-01"},
	{"iam", "iam/2010-05-08"},
	{"kms", "kms/2014-11-01"},
	{"shield", "shield/2016-06-02"},
	{"sqs", "sqs/2012-11-05"},
	{"ssm", "ssm/2014-11-06"},
	{"sts", "sts/2011-06-15"},
	{"wafregional", "waf-regional/2016-11-28"},
	{"wafv2", "wafv2/2019-07-29"},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: modelgen DIRECTORY-OF-PACKAGE-MODEL")
	}
	if err := generate(os.Args[1]); err != nil {
		log.Fatalf("modelgen: %v", err)
	}
}

func generate(dir string) error {
	v1, err := moduleDir("mod", "download", "-json", v1Module)
	if err != nil {
		return err
	}
	var all, unions, schemas []*source
	for _, s := range services {
		sdk, err := moduleDir("list", "-m", "-json", "github.com/aws/aws-sdk-go-v2/service/"+s.name)
		if err != nil {
			return err
		}
		src, err := parseSDK(s.name, sdk)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		old, err := parseV1(filepath.Join(v1, "models", "apis", s.v1, "api-2.json"))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		old.applyConstraints(src)
		text, err := src.renderText()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data", s.name+".txt"), text, 0o644); err != nil {
			return err
		}
		all = append(all, src)
		if len(src.unions) > 0 {
			unions = append(unions, src)
		}
		if src.hasSchemas {
			schemas = append(schemas, src)
		}
		log.Printf("%-24s %4d operations, %5d structures, %4d errors, %7d bytes", s.name, len(src.operations),
			len(src.reachable()), len(src.errors), len(text))
	}
	if err := writeGo(filepath.Join(dir, "schemas_gen.go"), schemasGo(schemas)); err != nil {
		return err
	}
	if err := writeGo(filepath.Join(dir, "unions_gen.go"), unionsGo(unions)); err != nil {
		return err
	}
	return writeGo(filepath.Join(dir, "..", "proof", "errors_gen_test.go"), errorsGo(all))
}

// moduleDir runs the go command and returns the Dir that it prints.
func moduleDir(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return m.Dir, nil
}

func writeGo(path string, code []byte) error {
	out, err := format.Source(code)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, out, 0o644)
}

// schemasGo lists the schemas that the SDK ships, by operation and by error.
func schemasGo(sources []*source) []byte {
	var b bytes.Buffer
	b.WriteString(
		"// Code generated by modelgen. DO NOT EDIT.\n\npackage model\n\nimport (\n\tsmithy " +
			"\"github.com/aws/smithy-go\"\n")
	for _, s := range sources {
		fmt.Fprintf(&b, "\t%s \"github.com/aws/aws-sdk-go-v2/service/%s/schemas\"\n", s.name, s.name)
	}
	b.WriteString(")\n\nfunc init() {\n")
	for _, s := range sources {
		fmt.Fprintf(&b, "\tshipped[%q] = &shippedSchemas{\n\t\toperations: map[string][3]*smithy.Schema{\n", s.name)
		for _, op := range s.operations {
			list := strings.ReplaceAll(strings.Join(op.schemas[:], ", "), "schemas.", s.name+".")
			fmt.Fprintf(&b, "\t\t\t%q: {%s},\n", op.name, list)
		}
		b.WriteString("\t\t},\n\t\terrors: map[string]*smithy.Schema{\n")
		for _, e := range s.errors {
			fmt.Fprintf(&b, "\t\t\t%q: %s.%s,\n", e.goType, s.name, e.schema)
		}
		b.WriteString("\t\t},\n\t}\n")
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// unionsGo lists the Go types of union members, which reflection cannot find from the interface.
func unionsGo(sources []*source) []byte {
	var b bytes.Buffer
	b.WriteString("// Code generated by modelgen. DO NOT EDIT.\n\npackage model\n\nimport (\n\t\"reflect\"\n\n")
	for _, s := range sources {
		fmt.Fprintf(&b, "\t%s \"github.com/aws/aws-sdk-go-v2/service/%s/types\"\n", s.name, s.name)
	}
	b.WriteString(")\n\nfunc init() {\n")
	for _, s := range sources {
		names := make([]string, 0, len(s.unions))
		for name := range s.unions {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&b, "\tunions[reflect.TypeFor[%s.%s]()] = map[string]reflect.Type{\n", s.name, name)
			for _, member := range s.unions[name] {
				fmt.Fprintf(&b, "\t\t%q: reflect.TypeFor[%s.%sMember%s](),\n", member, s.name, name, member)
			}
			b.WriteString("\t}\n")
		}
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// errorsGo lists the Go types of modeled errors with an operation that can answer with each, for the proof that the
// SDK reads them back.
func errorsGo(sources []*source) []byte {
	var b bytes.Buffer
	b.WriteString("// Code generated by modelgen. DO NOT EDIT.\n\npackage proof\n\nimport (\n\t\"reflect\"\n\n")
	for _, s := range sources {
		if len(s.errors) > 0 {
			fmt.Fprintf(&b, "\t%s \"github.com/aws/aws-sdk-go-v2/service/%s/types\"\n", s.name, s.name)
		}
	}
	b.WriteString(")\n\nvar modelledErrors = []struct {\n\tservice, operation string\n\ttyp reflect.Type\n}{\n")
	for _, s := range sources {
		for _, e := range s.errors {
			fmt.Fprintf(&b, "\t{%q, %q, reflect.TypeFor[%s.%s]()},\n", s.name, e.raised, s.name, e.goType)
		}
	}
	b.WriteString("}\n")
	return b.Bytes()
}
