package ssm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

func TestImagesAreFoundAsToolsAskForThem(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	for asked, check := range map[string]func(ami.Image, string) bool{
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id": func(
			i ami.Image, _ string) bool {
			return i.Architecture == "x86_64" && i.KubernetesVersion == "1.35"
		},
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2-arm64/recommended/image_id": func(i ami.Image, _ string) bool {
			return i.Architecture == "arm64" && i.Family == ami.AL2
		},
		"/aws/service/bottlerocket/aws-k8s-1.35/arm64/latest/image_id": func(i ami.Image, _ string) bool {
			return i.Family == ami.Bottlerocket
		},
		"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64": func(i ami.Image, _ string) bool {
			return i.Variant == ami.Plain
		},
		"arn:aws:ssm:eu-west-1::parameter/aws/service/bottlerocket/aws-k8s-1.35/x86_64/latest/image_id": func(
			i ami.Image, _ string) bool {
			return i.Architecture == "x86_64"
		},
	} {
		out, err := w.GetParameter(ctx, &ssm.GetParameterInput{Name: &asked})
		if err != nil {
			t.Errorf("%s: %v", asked, err)
			continue
		}
		image, ok := ami.Get(region, *out.Parameter.Value)
		if !ok || !check(image, asked) || aws.ToString(out.Parameter.DataType) != "aws:ec2:image" {
			t.Errorf("%s is %s: %+v", asked, *out.Parameter.Value, image)
		}
	}

	// eksctl and node groups read the release beside it; Terraform reads the JSON.
	base := "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended"
	several, err := w.GetParameters(ctx, &ssm.GetParametersInput{Names: []string{base + "/release_version",
		base + "/image_name", base, base + "/nothing"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(several.Parameters) != 3 || !slices.Equal(several.InvalidParameters, []string{base + "/nothing"}) {
		t.Errorf("got %d parameters, invalid are %v", len(several.Parameters), several.InvalidParameters)
	}
	if release := *several.Parameters[0].Value; !strings.HasPrefix(release, "1.35.") || !strings.HasSuffix(release,
		"-20261105") {
		t.Errorf("release_version is %s", release)
	}

	// All of a version, as Karpenter's documentation asks, page by page.
	path := "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023"
	var names []string
	pages := ssm.NewGetParametersByPathPaginator(w, &ssm.GetParametersByPathInput{Path: &path,
		Recursive: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Parameters) > 10 {
			t.Errorf("a page of %d", len(page.Parameters))
		}
		for _, p := range page.Parameters {
			names = append(names, *p.Name)
		}
	}
	// Two architectures, two variants, three releases each (recommended and two pinned), four parameters each.
	if len(names) != 2*2*3*4 || !slices.IsSorted(names) {
		t.Errorf("%d names below %s: %v", len(names), path, names)
	}
	regions, err := w.GetParametersByPath(ctx,
		&ssm.GetParametersByPathInput{Path: aws.String(
			"/aws/service/global-infrastructure/regions/eu-west-1/availability-zones")})
	if err != nil || len(regions.Parameters) != 3 || *regions.Parameters[0].Value != "euw1-az1" {
		t.Errorf("zones: %+v, %v", regions, err)
	}
}

func TestAParametersLife(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	put := func(in ssm.PutParameterInput) int64 {
		t.Helper()
		out, err := w.PutParameter(ctx, &in)
		if err != nil {
			t.Fatal(err)
		}
		return out.Version
	}
	get := func(name string) types.Parameter {
		t.Helper()
		out, err := w.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
		if err != nil {
			t.Fatal(err)
		}
		return *out.Parameter
	}
	name := aws.String("/team/db/url")
	put(ssm.PutParameterInput{Name: name, Value: aws.String("one"), Type: "String", Description: aws.String("where"),
		Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}})
	if v := put(ssm.PutParameterInput{Name: name, Value: aws.String("two"), Overwrite: aws.Bool(true)}); v != 2 {
		t.Errorf("the second version is %d", v)
	}
	if p := get("/team/db/url"); *p.Value != "two" || p.Version != 2 || *p.ARN != ownARN+"/team/db/url" ||
		p.Selector != nil || !p.LastModifiedDate.Equal(today) {
		t.Errorf("got %+v", p)
	}
	if p := get("/team/db/url:1"); *p.Value != "one" || *p.Selector != ":1" {
		t.Errorf("version 1 is %+v", p)
	}
	label, err := w.LabelParameterVersion(ctx, &ssm.LabelParameterVersionInput{Name: name,
		ParameterVersion: aws.Int64(1), Labels: []string{"prod", "9lives", "awsome"}})
	if err != nil || !slices.Equal(label.InvalidLabels, []string{"9lives", "awsome"}) {
		t.Errorf("label: %+v, %v", label, err)
	}
	if p := get(ownARN + "/team/db/url:prod"); *p.Value != "one" {
		t.Errorf("prod is %+v", p)
	}
	if _, err := w.LabelParameterVersion(ctx, &ssm.LabelParameterVersionInput{Name: name,
		Labels: []string{"prod"}}); err != nil {
		t.Error(err)
	}
	if p := get("/team/db/url:prod"); *p.Value != "two" {
		t.Errorf("prod has not moved: %+v", p)
	}
	unlabel, err := w.UnlabelParameterVersion(ctx, &ssm.UnlabelParameterVersionInput{Name: name,
		ParameterVersion: aws.Int64(2), Labels: []string{"prod", "test"}})
	if err != nil || !slices.Equal(unlabel.RemovedLabels, []string{"prod"}) || !slices.Equal(unlabel.InvalidLabels,
		[]string{"test"}) {
		t.Errorf("unlabel: %+v, %v", unlabel, err)
	}
	history, err := w.GetParameterHistory(ctx, &ssm.GetParameterHistoryInput{Name: name})
	if err != nil || len(history.Parameters) != 2 || *history.Parameters[0].Value != "one" ||
		*history.Parameters[1].Description != "where" || *history.Parameters[1].LastModifiedUser != rootARN {
		t.Errorf("history: %+v, %v", history, err)
	}

	put(ssm.PutParameterInput{Name: aws.String("/team/list"), Value: aws.String("a,b"), Type: "StringList"})
	put(ssm.PutParameterInput{Name: aws.String("flat"), Value: aws.String("x"), Type: "String"})
	if p := get(ownARN + "/flat"); *p.Name != "flat" {
		t.Errorf("by ARN: %+v", p)
	}
	for _, c := range []struct {
		filters []types.ParameterStringFilter
		want    string
	}{
		{nil, "/team/db/url /team/list flat"},
		{[]types.ParameterStringFilter{{Key: aws.String("Path"), Values: []string{"/team"}}}, "/team/list"},
		{[]types.ParameterStringFilter{{Key: aws.String("Path"), Option: aws.String("Recursive"),
			Values: []string{"/team"}}}, "/team/db/url /team/list"},
		{[]types.ParameterStringFilter{{Key: aws.String("Name"), Option: aws.String("Contains"),
			Values: []string{"url"}}}, "/team/db/url"},
		{[]types.ParameterStringFilter{{Key: aws.String("Type"), Values: []string{"StringList"}}}, "/team/list"},
		{[]types.ParameterStringFilter{{Key: aws.String("tag:team"), Values: []string{"a", "b"}}}, "/team/db/url"},
	} {
		out, err := w.DescribeParameters(ctx, &ssm.DescribeParametersInput{ParameterFilters: c.filters})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range out.Parameters {
			names = append(names, *p.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.filters, got, c.want)
		}
	}

	if _, err := w.AddTagsToResource(ctx, &ssm.AddTagsToResourceInput{ResourceType: "Parameter", ResourceId: name,
		Tags: []types.Tag{{Key: aws.String("b"), Value: aws.String("2")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.RemoveTagsFromResource(ctx, &ssm.RemoveTagsFromResourceInput{ResourceType: "Parameter",
		ResourceId: name, TagKeys: []string{"team"}}); err != nil {
		t.Fatal(err)
	}
	tags, err := w.ListTagsForResource(ctx, &ssm.ListTagsForResourceInput{ResourceType: "Parameter", ResourceId: name})
	if err != nil || len(tags.TagList) != 1 || *tags.TagList[0].Key != "b" {
		t.Errorf("tags: %+v, %v", tags, err)
	}
	deleted, err := w.DeleteParameters(ctx, &ssm.DeleteParametersInput{Names: []string{"flat", "gone"}})
	if err != nil || !slices.Equal(deleted.DeletedParameters, []string{"flat"}) ||
		!slices.Equal(deleted.InvalidParameters, []string{"gone"}) {
		t.Errorf("deleted: %+v, %v", deleted, err)
	}
	if _, err := w.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: name}); err != nil {
		t.Error(err)
	}
	if v := put(ssm.PutParameterInput{Name: name, Value: aws.String("new"), Type: "String"}); v != 1 {
		t.Errorf("a parameter made again starts with version %d", v)
	}
	if all, err := w.GetParameterHistory(ctx, &ssm.GetParameterHistoryInput{Name: name}); err != nil ||
		len(all.Parameters) != 1 {
		t.Errorf("and has %d versions", len(all.Parameters))
	}
}

func TestOneHundredVersionsAreKept(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for range 103 {
		if _, err := w.PutParameter(t.Context(), &ssm.PutParameterInput{Name: aws.String("counter"),
			Value: aws.String("x"), Type: "String", Overwrite: aws.Bool(true)}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("counter:3")})
	if got := awstest.Code(err); got != "ParameterVersionNotFound" {
		t.Errorf("version 3: %v", err)
	}
	if _, err := w.LabelParameterVersion(t.Context(), &ssm.LabelParameterVersionInput{Name: aws.String("counter"),
		ParameterVersion: aws.Int64(4), Labels: []string{"keep"}}); err != nil {
		t.Fatal(err)
	}
	_, err = w.PutParameter(t.Context(), &ssm.PutParameterInput{Name: aws.String("counter"), Value: aws.String("x"),
		Overwrite: aws.Bool(true)})
	if got := awstest.Code(err); got != "ParameterMaxVersionLimitExceeded" {
		t.Errorf("a version beyond a label: %v", err)
	}
}

func TestRequestsAreAuthorizedOnTheParameter(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.PutParameter(ctx, &ssm.PutParameterInput{Name: aws.String("/a/b"), Value: aws.String("x"), Type: "String",
		Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}})
	w.GetParameters(ctx, &ssm.GetParametersInput{Names: []string{"/a/b:1", "/aws/service/ami-amazon-linux-latest/x"}})
	w.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: aws.String("/a/"), Recursive: aws.Bool(true)})
	var got []string
	for _, target := range w.Asked {
		got = append(got, target.Action+" "+target.Resource)
	}
	want := []string{
		"ssm:PutParameter " + ownARN + "/a/b", "ssm:AddTagsToResource " + ownARN + "/a/b", "ssm:GetParameters " +
			ownARN + "/a/b",
		"ssm:GetParameters arn:aws:ssm:eu-west-1::parameter/aws/service/ami-amazon-linux-latest/x",
		"ssm:GetParametersByPath " + ownARN + "/a",
	}
	if !slices.Equal(got, want) {
		t.Errorf("asked %q\nwant  %q", got, want)
	}
	if v := w.Asked[2].Conditions["aws:ResourceTag/k"]; !slices.Equal(v, []string{"v"}) {
		t.Errorf("the tag is %v", v)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	s := aws.String
	put := func(in ssm.PutParameterInput) func() error {
		return func() error { _, err := w.PutParameter(ctx, &in); return err }
	}
	get := func(name string) func() error {
		return func() error { _, err := w.GetParameter(ctx, &ssm.GetParameterInput{Name: &name}); return err }
	}
	byPath := func(in ssm.GetParametersByPathInput) func() error {
		return func() error { _, err := w.GetParametersByPath(ctx, &in); return err }
	}
	describe := func(filters ...types.ParameterStringFilter) func() error {
		return func() error {
			_, err := w.DescribeParameters(ctx, &ssm.DescribeParametersInput{ParameterFilters: filters})
			return err
		}
	}
	if err := put(ssm.PutParameterInput{Name: s("there"), Value: s("x"), Type: "String"})(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		call          func() error
		code, message string
	}{
		{"get what is not there", get("gone"), "ParameterNotFound", ""},
		{"get a version that is not there", get("there:7"), "ParameterVersionNotFound",
			"could not find version 7 of there"},
		{"get a label that is not there", get("there:prod"), "ParameterVersionNotFound",
			"could not find version prod of there"},
		{"get by a strange name", get("a b"), "ValidationException", "Invalid parameter name"},
		{"get with two selectors", get("there:1:2"), "ValidationException", "<name>:<version/label>"},
		{"get of another region", get("arn:aws:ssm:us-east-1:" + account + ":parameter/there"), "ParameterNotFound",
			""},
		{"get an image of an unknown version",
			get("/aws/service/eks/optimized-ami/1.09/amazon-linux-2/recommended/image_id"), "ParameterNotFound",
			""},
		{"get a reserved name", get("/aws/secret"), "AccessDeniedException",
			"No access to reserved parameter name: /aws/secret."},
		{"get nothing", get(""), "ValidationException", ""},
		{"get eleven", func() error {
			_, err := w.GetParameters(ctx, &ssm.GetParametersInput{Names: strings.Fields("a b c d e f g h i j k")})
			return err
		}, "ValidationException", "10"},
		{"get twice", func() error {
			_, err := w.GetParameters(ctx, &ssm.GetParametersInput{Names: []string{"a", "a"}})
			return err
		}, "ValidationException", "Duplicate"},
		{"path without a slash", byPath(ssm.GetParametersByPathInput{Path: s("team")}), "ValidationException",
			`must begin with a forward slash`},
		{"path with a space", byPath(ssm.GetParametersByPathInput{Path: s("/a b")}), "ValidationException",
			`Special characters are not allowed`},
		{"path of large pages", byPath(ssm.GetParametersByPathInput{Path: s("/a"), MaxResults: aws.Int32(11)}),
			"ValidationException", "10"},
		{"path with a filter unknown", byPath(ssm.GetParametersByPathInput{Path: s("/a"),
			ParameterFilters: []types.ParameterStringFilter{{Key: s("Name"), Values: []string{"a"}}}}),
			"InvalidFilterKey", ""},
		{"path with a token of nobody's", byPath(ssm.GetParametersByPathInput{Path: s("/a"), NextToken: s("tomorrow")}),
			"InvalidNextToken", "tomorrow"},
		{"put without a type", put(ssm.PutParameterInput{Name: s("new"), Value: s("x")}), "ValidationException",
			"A parameter type is required when you create a parameter."},
		{"put what is there", put(ssm.PutParameterInput{Name: s("there"), Value: s("x"), Type: "String"}),
			"ParameterAlreadyExists", "set the overwrite option in the request to true"},
		{"put another type", put(ssm.PutParameterInput{Name: s("there"), Value: s("x"), Type: "StringList",
			Overwrite: aws.Bool(true)}), "HierarchyTypeMismatchException", "is a String"},
		{"put a strange type", put(ssm.PutParameterInput{Name: s("new"), Value: s("x"), Type: "Number"}),
			"ValidationException", "Number"},
		{"put below /aws", put(ssm.PutParameterInput{Name: s("/aws/x"), Value: s("x"), Type: "String"}),
			"AccessDeniedException", "No access to reserved parameter name: aws/x."},
		{"put a path that begins with aws", put(ssm.PutParameterInput{Name: s("/awsome/x"), Value: s("x"), Type: "String"}),
			"AccessDeniedException", "No access to reserved parameter name: awsome/x."},
		{"put below /ssm", put(ssm.PutParameterInput{Name: s("/SSM/x"), Value: s("x"), Type: "String"}),
			"ValidationException", `can't be prefixed with "ssm" (case-insensitive). If formed as a path`},
		{"put a name with aws", put(ssm.PutParameterInput{Name: s("awsome"), Value: s("x"), Type: "String"}),
			"ValidationException", `can't be prefixed with "aws" or "ssm"`},
		{"put a path without its slash", put(ssm.PutParameterInput{Name: s("a/b"), Value: s("x"), Type: "String"}),
			"ValidationException", "fully qualified"},
		{"put a strange name", put(ssm.PutParameterInput{Name: s("a$b"), Value: s("x"), Type: "String"}),
			"ValidationException", "a$b"},
		{"put too deep", put(ssm.PutParameterInput{Name: s(strings.Repeat("/a", 16)), Value: s("x"), Type: "String"}),
			"HierarchyLevelLimitExceededException", "15 levels"},
		{"put too much", put(ssm.PutParameterInput{Name: s("new"), Value: s(strings.Repeat("x", 4097)),
			Type: "String"}), "ValidationException", "maximum parameter value of 4096 characters"},
		{"put far too much", put(ssm.PutParameterInput{Name: s("new"), Value: s(strings.Repeat("x", 8193)),
			Type: "String", Tier: "Advanced"}), "ValidationException", "maximum parameter value of 8192 characters"},
		{"put a reference", put(ssm.PutParameterInput{Name: s("new"), Value: s("{{ssm:there}}"), Type: "String"}),
			"ValidationException", "can't nest another parameter"},
		{"put against the pattern", put(ssm.PutParameterInput{Name: s("new"), Value: s("x"), Type: "String",
			AllowedPattern: s(`^\d+$`)}), "ParameterPatternMismatchException", `^\d+$`},
		{"put with a broken pattern", put(ssm.PutParameterInput{Name: s("new"), Value: s("x"), Type: "String",
			AllowedPattern: s(`(`)}), "InvalidAllowedPatternException", "("},
		{"put with a pattern that takes long", put(ssm.PutParameterInput{Name: s("new"), Value: s("x"), Type: "String",
			AllowedPattern: s(`(abcdefghij){1000}`)}), "InvalidAllowedPatternException", "use smaller counts"},
		{"put no image", put(ssm.PutParameterInput{Name: s("new"), Value: s("x"), Type: "String",
			DataType: s("aws:ec2:image")}), "ValidationException", "aws:ec2:image"},
		{"put a strange data type", put(ssm.PutParameterInput{Name: s("new"), Value: s("x"), Type: "String",
			DataType: s("color")}), "ValidationException", "color"},
		{"put policies", put(ssm.PutParameterInput{Name: s("new"), Value: s("x"), Type: "String",
			Policies: s(`[{"Type":"Expiration"}]`)}), "InvalidPolicyTypeException", "policies are not supported"},
		{"put tags and overwrite", put(ssm.PutParameterInput{Name: s("there"), Value: s("x"), Overwrite: aws.Bool(true),
			Tags: []types.Tag{{Key: s("a"), Value: s("b")}}}), "ValidationException",
			"tags and overwrite can't be used together"},
		{"put a reserved tag", put(ssm.PutParameterInput{Name: s("new"), Value: s("x"), Type: "String",
			Tags: []types.Tag{{Key: s("aws:x"), Value: s("b")}}}), "ValidationException", "aws:x"},
		{"delete what is not there", func() error {
			_,
				err := w.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: s("gone")})
			return err
		}, "ParameterNotFound", ""},
		{"history of what is not there", func() error {
			_, err := w.GetParameterHistory(ctx, &ssm.GetParameterHistoryInput{Name: s("gone")})
			return err
		}, "ParameterNotFound", ""},
		{"label what is not there", func() error {
			_, err := w.LabelParameterVersion(ctx, &ssm.LabelParameterVersionInput{Name: s("gone"),
				Labels: []string{"a"}})
			return err
		}, "ParameterNotFound", ""},
		{"label a version that is not there", func() error {
			_, err := w.LabelParameterVersion(ctx, &ssm.LabelParameterVersionInput{Name: s("there"),
				ParameterVersion: aws.Int64(9), Labels: []string{"a"}})
			return err
		}, "ParameterVersionNotFound", "version 9 of there"},
		{"tag what is not there", func() error {
			_, err := w.AddTagsToResource(ctx, &ssm.AddTagsToResourceInput{ResourceType: "Parameter",
				ResourceId: s("gone"), Tags: []types.Tag{{Key: s("a"), Value: s("b")}}})
			return err
		}, "InvalidResourceId", ""},
		{"tag a document", func() error {
			_, err := w.ListTagsForResource(ctx, &ssm.ListTagsForResourceInput{ResourceType: "Document",
				ResourceId: s("there")})
			return err
		}, "InvalidResourceType", ""},
		{"describe by a strange key", describe(types.ParameterStringFilter{Key: s("Color"), Values: []string{"a"}}),
			"ValidationException", "Color"},
		{"describe by a strange option", describe(types.ParameterStringFilter{Key: s("Name"), Option: s("Sounds"),
			Values: []string{"a"}}), "InvalidFilterOption", "Sounds"},
		{"describe by one key twice", describe(types.ParameterStringFilter{Key: s("Name"), Values: []string{"a"}},
			types.ParameterStringFilter{Key: s("Name"), Values: []string{"b"}}), "InvalidFilterKey", ""},
		{"describe by a path without its slash",
			describe(types.ParameterStringFilter{Key: s("Path"), Values: []string{"team"}}), "ValidationException",
			"forward slash"},
	} {
		got, message, _ := awstest.Failure(c.call())
		if got == "" || c.code != "" && got != c.code || !strings.Contains(message, c.message) {
			t.Errorf("%s: %s: %s; want %s: …%s…", c.name, got, message, c.code, c.message)
		}
	}
}

func TestCLI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	cli := awsclient.NewCLI(t, w.url, region, "ssm")
	// As the EKS user guide says it.
	id := cli.Run(nil, "get-parameter", "--name",
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id", "--query",
		"Parameter.Value", "--output", "text")
	if image, ok := ami.Get(region, id); !ok || image.Name != "amazon-eks-node-al2023-x86_64-standard-1.35-v20261105" {
		t.Errorf("%s is %+v", id, image)
	}
	cli.Run(nil, "put-parameter", "--name", "/x/y", "--value", "z", "--type", "String")
	var out struct {
		Parameters []struct{ Name, Value string }
	}
	if cli.Run(&out, "get-parameters-by-path", "--path", "/x"); len(out.Parameters) != 1 ||
		out.Parameters[0].Value != "z" {
		t.Errorf("%+v", out)
	}
}

// PutParameter is judged by what it overwrites, and by the request alone where it creates: neither by a parameter that
// has the name now and will be gone, nor by "a" when the ARN of "/a" is asked for.
func TestWritesAreAuthorizedOnWhatIsWritten(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, p := t.Context(), aws.String
	tags := []types.Tag{{Key: p("k"), Value: p("v")}}
	for _, name := range []string{"/there", "only"} {
		if _, err := w.PutParameter(ctx, &ssm.PutParameterInput{Name: &name, Value: p("x"), Type: "String",
			Tags: tags}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name      string
		overwrite bool
		tag       []string
	}{
		{"/there", true, []string{"v"}},
		{"/there", false, nil},
		{ownARN + "/there", true, []string{"v"}},
		{ownARN + "/only", true, nil},
	} {
		asked := len(w.Asked)
		w.PutParameter(ctx, &ssm.PutParameterInput{Name: &test.name, Value: p("x"), Type: "String",
			Overwrite: &test.overwrite})
		if got := w.Asked[asked].Conditions["aws:ResourceTag/k"]; !slices.Equal(got, test.tag) {
			t.Errorf("%s, overwrite %v: the tag is %v, not %v", test.name, test.overwrite, got, test.tag)
		}
	}
}
