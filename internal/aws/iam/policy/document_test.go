package policy

import (
	"errors"
	"strings"
	"testing"
)

func TestMalformedDocuments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		kind Kind
		text string
		says string
	}{
		{"empty", Identity, ``, "Syntax errors in policy"},
		{"not JSON", Identity, `{Version: 2012}`, "Syntax errors in policy"},
		{"not JSON in trust", Trust, `{`, "This policy contains invalid Json"},
		{"text behind", Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": "*"}`) + "x",
			"Syntax errors"},
		{"second document", Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": "*"}`) + "{}",
			"text after the document"},
		{"a list", Identity, `[]`, "not a JSON object"},
		{"a string", Identity, `"x"`, "not a JSON object"},
		{"no statement", Identity, `{"Version": "2012-10-17"}`, "missing required field Statement"},
		{"no statements", Identity, statement(`[]`), "Statement is empty"},
		{"no statements in trust", Trust, statement(`[]`), "at least one statement"},
		{"statement is text", Identity, statement(`"x"`), "a statement must be a JSON object"},
		{"unknown version", Identity, `{"Version": "2020-01-01", "Statement": []}`, `"2012-10-17"`},
		{"version is a number", Identity, `{"Version": 2012, "Statement": []}`, "Version"},
		{"id is a number", Identity, `{"Id": 1, "Statement": []}`, "Id must be a string"},
		{"unknown field", Identity, `{"Statements": []}`, `unknown field "Statements"`},
		{"unknown field in a statement", Identity, statement(`{"Effect": "Allow", "Actions": "*", "Resource": "*"}`),
			`unknown field "Actions"`},
		{"field twice", Identity, statement(`{"Effect": "Allow", "Effect": "Deny", "Action": "*", "Resource": "*"}`),
			`"Effect" is given twice, at line 1`},
		{"condition key twice", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringEquals": {"aws:a": "1", "aws:a": "2"}}}`), "given twice"},
		{"nested too deeply", Identity, strings.Repeat("[", 100) + strings.Repeat("]", 100), "too deeply"},
		{"no effect", Identity, statement(`{"Action": "*", "Resource": "*"}`), "Missing required field Effect"},
		{"unknown effect", Identity, statement(`{"Effect": "allow", "Action": "*", "Resource": "*"}`),
			`Invalid effect: "allow"`},
		{"no action", Identity, statement(`{"Effect": "Allow", "Resource": "*"}`),
			"Policy statement must contain actions."},
		{"empty actions", Identity, statement(`{"Effect": "Allow", "Action": [], "Resource": "*"}`),
			"Policy statement must contain actions."},
		{"action and not", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "NotAction": "iam:*", "Resource": "*"}`),
			"Action or NotAction, not both"},
		{"action is a number", Identity, statement(`{"Effect": "Allow", "Action": 1, "Resource": "*"}`),
			"Action must be a string or a list of strings, got 1"},
		{"action without service", Identity,
			statement(`{"Effect": "Allow", "Action": "DescribeCluster", "Resource": "*"}`),
			"Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc."},
		{"service with wildcard", Identity,
			statement(`{"Effect": "Allow", "Action": "e*:DescribeCluster", "Resource": "*"}`),
			"cannot contain regexes"},
		{"service with a space", Identity,
			statement(`{"Effect": "Allow", "Action": "e ks:DescribeCluster", "Resource": "*"}`),
			"Vendor e ks is not valid"},
		{"action with a colon", Identity,
			statement(`{"Effect": "Allow", "Action": "eks:Describe:Cluster", "Resource": "*"}`), "legacy parsing"},
		{"no resource", Identity, statement(`{"Effect": "Allow", "Action": "*"}`),
			"Policy statement must contain resources."},
		{"empty resources", Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": []}`),
			"Policy statement must contain resources."},
		{"resource is a name", Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": "my-cluster"}`),
			`Resource my-cluster must be in ARN format or "*".`},
		{"short ARN", Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3"}`),
			"must be in ARN format"},
		{"partition", Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": "arn:azure:s3:::x"}`),
			`Partition "azure" is not valid for resource "arn:azure:s3:::x".`},
		{"resource service", Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s?:::x"}`),
			"Resource vendor must be fully qualified and cannot contain regexes."},
		{"region of IAM", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:iam:us-east-1:111122223333:role/x"}`),
			"cannot contain region information"},
		{"account of IAM", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:iam::1111:role/x"}`), "twelve-digit"},
		{"resource and not", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "NotResource": "*"}`), "not both"},
		{"principal", Identity, statement(`{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}`),
			"Policy document should not specify a principal."},
		{"sid with a space", Identity, statement(`{"Sid": "a b", "Effect": "Allow", "Action": "*", "Resource": "*"}`),
			"Statement IDs (SID) must be alpha-numeric."},
		{"same sid", Identity, statement(
			`[{"Sid": "a", "Effect": "Allow", "Action": "*", "Resource": "*"}, {"Sid": "a", "Effect": "Allow", "Action": "*", "Resource": "*"}]`), "Statement IDs (SID) in a single policy must be unique."},
		{"condition is a list", Identity,
			statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": []}`),
			"Condition must be an object"},
		{"operator holds text", Identity,
			statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"Bool": "x"}}`),
			"must hold an object"},
		{"unknown operator", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringIs": {"aws:username": "x"}}}`),
			"Invalid Condition type : StringIs."},
		{"NullIfExists", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"NullIfExists": {"aws:username": "true"}}}`), "Invalid Condition type : NullIfExists."},
		{"condition key without service", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringEquals": {"username": "x"}}}`), "must be prefaced by a vendor"},
		{"not a number", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"NumericEquals": {"s3:max-keys": "ten"}}}`), `"ten"`},
		{"not a date", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"DateLessThan": {"aws:CurrentTime": "tomorrow"}}}`), `"tomorrow"`},
		{"not an address", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/40"}}}`), `"10.0.0.0/40"`},
		{"not a boolean", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "yes"}}}`), `"yes"`},
		{"not a finite number", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"NumericLessThanEquals": {"aws:RequestTag/p": "NaN"}}}`), `"NaN"`},
		{"an infinite number", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"NumericLessThan": {"aws:RequestTag/p": "Inf"}}}`), `"Inf"`},
		{"a hexadecimal number", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"NumericEquals": {"aws:RequestTag/p": "0x10"}}}`), `"0x10"`},
		{"a number with an underscore", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"NumericEquals": {"aws:RequestTag/p": "1_0"}}}`), `"1_0"`},
		{"a number with a plus sign", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"NumericEquals": {"aws:RequestTag/p": "+1"}}}`), `"+1"`},
		{"a number with an exponent", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"NumericEquals": {"aws:RequestTag/p": 1e9}}}`), `"1e9"`},
		{"an infinite date", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"DateLessThan": {"aws:CurrentTime": "+Inf"}}}`), `"+Inf"`},
		{"a date that is no number", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"DateLessThan": {"aws:CurrentTime": "NaN"}}}`), `"NaN"`},
		{"a date behind the year 9999", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"DateLessThan": {"aws:EpochTime": "253402300800"}}}`), `"253402300800"`},
		{"a date with an hour of one digit", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"DateLessThan": {"aws:CurrentTime": "2027-01-01T1:00:00Z"}}}`), `"2027-01-01T1:00:00Z"`},
		{"a date with an offset of days", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"DateLessThan": {"aws:CurrentTime": "2027-01-01T01:00:00+99:00"}}}`), `"2027-01-01T01:00:00+99:00"`},
		{"an address with a zone", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "fe80::1%eth0"}}}`), `"fe80::1%eth0"`},
		{"a boolean in other letters", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "falſe"}}}`), `"falſe"`},
		{"a number for a boolean", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": 1}}}`), `"1"`},
		{"no boolean for Null", Identity,
			statement(
				`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"Null": {"aws:username": "yes"}}}`),
			`"yes"`},
		{"not base64", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"BinaryEquals": {"x:y": "%"}}}`), `"%"`},
		{"null as a value", Identity, statement(
			`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringEquals": {"aws:username": null}}}`), "got null"},
		{"trust with a resource", Trust,
			statement(`{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole", "Resource": "*"}`),
			"Has prohibited field Resource"},
		{"trust without principal", Trust, statement(`{"Effect": "Allow", "Action": "sts:AssumeRole"}`),
			"Missing required field Principal"},
		{"trust without action", Trust, statement(`{"Effect": "Allow", "Principal": "*"}`),
			"Missing required field Action"},
		{"trust of another action", Trust,
			statement(`{"Effect": "Allow", "Principal": "*", "Action": "eks:DescribeCluster"}`),
			"AssumeRole policy may only specify STS AssumeRole actions."},
		{"trust of another STS action", Trust,
			statement(`{"Effect": "Allow", "Principal": "*", "Action": "sts:GetCallerIdentity"}`),
			"AssumeRole policy may only specify STS AssumeRole actions."},
		{"empty principal", Trust, statement(`{"Effect": "Allow", "Principal": {}, "Action": "sts:AssumeRole"}`),
			"cannot be empty"},
		{"principal without names", Trust,
			statement(`{"Effect": "Allow", "Principal": {"AWS": []}, "Action": "sts:AssumeRole"}`), "cannot be empty"},
		{"principal is text", Trust, statement(
			`{"Effect": "Allow", "Principal": "eks.amazonaws.com", "Action": "sts:AssumeRole"}`),
			"Invalid principal in policy"},
		{"principal with a wildcard", Trust,
			statement(
				`{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:role/*"}, "Action": "sts:AssumeRole"}`), `Invalid principal in policy: "AWS":"arn:aws:iam::111122223333:role/*"`},
		{"principal of a kind that is none", Trust,
			statement(`{"Effect": "Allow", "Principal": {"User": "alice"}, "Action": "sts:AssumeRole"}`),
			`Invalid principal in policy: "USER":"alice"`},
		{"service that is none", Trust, statement(
			`{"Effect": "Allow", "Principal": {"Service": "eks"}, "Action": "sts:AssumeRole"}`),
			`Invalid principal in policy: "SERVICE":"eks"`},
		{"trust with NotPrincipal", Trust,
			statement(`{"Effect": "Allow", "NotPrincipal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole"}`),
			"Has prohibited field NotPrincipal"},
		{"resource policy without principal", Resource,
			statement(`{"Effect": "Allow", "Action": "*", "Resource": "*"}`), "Missing required field Principal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(test.kind, test.text)
			var m *MalformedError
			if !errors.As(err, &m) || !strings.Contains(m.Message, test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}

func TestGoodDocuments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind Kind
		text string
	}{
		"single forms": {Identity,
			`{"Version": "2012-10-17", "Id": "x", "Statement": {"Sid": "", "Effect": "Allow", "Action": "eks:*", "Resource": "*"}}`},
		"old version": {Identity,
			`{"Version": "2008-10-17", "Statement": [{"Effect": "Allow", "Action": ["eks:*"], "Resource": ["*"]}]}`},
		"statement before version": {Identity,
			`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::${aws:username}"}], "Version": "2012-10-17"}`},
		"managed policy": {Identity,
			statement(
				`{"Effect": "Allow", "Action": "iam:AttachRolePolicy", "Resource": "arn:aws:iam::aws:policy/AmazonEKS*"}`)},
		"partition variable": {Identity,
			statement(`{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:${aws:Partition}:s3:::b/*"}`)},
		"whole ARN in a variable": {Identity,
			statement(`{"Effect": "Allow", "Action": "s3:*", "Resource": "${aws:PrincipalTag/bucket}"}`)},
		"other partition": {Identity,
			statement(`{"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws-cn:s3:::b/*", "arn:*:s3:::b"]}`)},
		"trust of a service": {Trust,
			statement(
				`{"Sid": "Anything goes", "Effect": "Allow", "Principal": {"Service": ["eks.amazonaws.com", "ec2.amazonaws.com.cn"]}, "Action": ["sts:AssumeRole", "sts:TagSession"]}`)},
		"trust with wildcard": {Trust,
			statement(`{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:Assume*"}`)},
		"trust of a token": {Trust,
			statement(
				`{"Effect": "Allow", "Principal": {"Federated": "arn:aws:iam::111122223333:oidc-provider/x"}, "Action": "sts:AssumeRoleWithWebIdentity"}`)},
		"resource policy": {Resource,
			statement(
				`{"Effect": "Deny", "NotPrincipal": {"AWS": ["111122223333"], "CanonicalUser": "x"}, "Action": "kms:*", "Resource": "*"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(test.kind, test.text); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStatementBeforeVersionKnowsVariables(t *testing.T) {
	t.Parallel()
	p := sources(t, Identity,
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "${aws:PrincipalTag/bucket}"}], "Version": "2012-10-17"}`)
	r := &Request{Action: "s3:GetObject", Resource: "arn:aws:s3:::b", Principal: alice,
		Keys: Context{"aws:PrincipalTag/bucket": {"arn:aws:s3:::b"}}}
	if d := Evaluate(r, &Policies{Identity: p}); !d.Allowed() {
		t.Error(d.Reason())
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	if got := Size("{ \"a\":\n\t\"ü b\" }\r\n"); got != 10 {
		t.Errorf("got %d, want 10", got)
	}
}

// FuzzParse shows that a document either is refused with AWS's error or can be evaluated.
func FuzzParse(f *testing.F) {
	f.Add(statement(
		`{"Effect": "Allow", "Action": ["eks:*", "s3:Get?*"], "Resource": "arn:aws:eks:*:${aws:PrincipalAccount}:cluster/${aws:PrincipalTag/x, 'y'}", "Condition": {"ForAnyValue:StringLike": {"aws:TagKeys": ["a*", "${*}"]}, "IpAddress": {"aws:SourceIp": "10.0.0.0/8"}, "DateLessThan": {"aws:CurrentTime": "2027-01-01"}, "Null": {"aws:username": true}}}`))
	f.Add(statement(
		`{"Effect": "Deny", "NotPrincipal": {"AWS": ["111122223333", "AIDAALICE000000000001"]}, "NotAction": "iam:*", "NotResource": "${"}`))
	f.Add(statement(`{"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}`))
	f.Fuzz(func(t *testing.T, text string) {
		for kind := Identity; kind <= Resource; kind++ {
			d, err := Parse(kind, text)
			if err != nil {
				var m *MalformedError
				if !errors.As(err, &m) {
					t.Fatalf("%T: %v", err, err)
				}
				continue
			}
			p := &Policies{Resource: []Source{{Document: d}}}
			if kind == Identity {
				p = &Policies{Identity: []Source{{Document: d}}}
			}
			keys := Context{"aws:username": {"a", "*"}, "aws:TagKeys": {"ab"}, "aws:SourceIp": {"10.0.0.1"},
				"aws:CurrentTime": {"2026-11-21T08:00:00Z"}}
			for _, who := range []Principal{alice, nodeRole, root, eks, pod} {
				d := Evaluate(&Request{Action: "eks:DescribeCluster", Resource: cluster, Principal: who, Keys: keys}, p)
				if (d.Verdict == Allowed) != (d.Reason() == "") {
					t.Fatalf("%s with the reason %q", d.Verdict, d.Reason())
				}
			}
		}
	})
}
