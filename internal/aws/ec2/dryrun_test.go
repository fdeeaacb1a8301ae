package ec2_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// TestDryRuns asks for every operation of EC2 with DryRun, as somebody who may and as somebody who may not. Nothing
// changes.
func TestDryRuns(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	variables := createOneOfEach(w)
	mux := wire.NewMux(wire.Options{Credentials: w.Judge, Authorizer: w.Judge, Region: ec2test.Region})
	w.Service.Register(mux)
	w.Sessions = map[string]wire.Caller{"AKIANOBODY": {Account: ec2test.Account, AccessKeyID: "AKIANOBODY",
		ARN: "arn:aws:iam::" + ec2test.Account + ":user/nobody", UserID: "AIDANOBODY"}}
	w.Deny = func(c wire.Caller, _ wire.Target) bool { return c.AccessKeyID == "AKIANOBODY" }
	ask := func(key, action, query string) response {
		t.Helper()
		return askEC2(t, mux, key, expandQuery(action, query, variables))
	}

	missing := maps.Clone(dryRuns)
	before := w.Dump()
	for _, op := range mux.Operations() {
		if op.Service != wire.EC2 || !op.Served {
			continue
		}
		query, known := dryRuns[op.Name]
		delete(missing, op.Name)
		if !known {
			t.Errorf("%s: dryRuns has no request for it", op.Name)
			continue
		}
		if _, has := reflect.TypeOf(op.MinimalInput()).Elem().FieldByName("DryRun"); !has {
			if query != noDryRun {
				t.Errorf("%s has no DryRun, and a request %q", op.Name, query)
			}
			continue
		}
		if got := ask("AKIAROOT", op.Name, query+"&DryRun=true"); got.status != http.StatusPreconditionFailed ||
			got.Code != "DryRunOperation" || got.Message != "Request would have succeeded, but DryRun flag is set." {
			t.Errorf("%s: %+v", op.Name, got)
		}
		if got := ask("AKIANOBODY", op.Name, query+"&DryRun=true"); got.status != http.StatusForbidden ||
			got.Code != "UnauthorizedOperation" {
			t.Errorf("%s by nobody: %+v", op.Name, got)
		}
		if after := w.Dump(); after != before {
			t.Errorf("%s changes the store in a dry run", op.Name)
			before = after
		}
	}
	for name := range missing {
		t.Errorf("dryRuns has a request for %s, which is not served", name)
	}

	// What is wrong with a request is answered before the dry run, but not sizes of pages, and nothing to those who may
	// not make the request.
	for _, c := range []struct{ name, key, action, query, code string }{
		{"an unknown resource", "AKIAROOT", "DeleteVpc", "VpcId=vpc-" + gone, "InvalidVpcID.NotFound"},
		{"an unknown resource that is described", "AKIAROOT", "DescribeVpcs", "VpcId.1=vpc-" + gone,
			"InvalidVpcID.NotFound"},
		{"an unknown image", "AKIAROOT", "RunInstances", "ImageId=ami-" + gone + "&InstanceType=m5.large&MinCount=1" +
			"&MaxCount=1",
			"InvalidAMIID.NotFound"},
		{"a missing parameter", "AKIAROOT", "CreateSubnet", "CidrBlock=10.0.0.0/24", "MissingParameter"},
		{"an unknown parameter", "AKIAROOT", "CreateVpc", "CidrBlock=10.9.0.0/16&Color=red", "UnknownParameter"},
		{"tags of another type", "AKIAROOT", "CreateVpc", "CidrBlock=10.9.0.0/16&TagSpecification.1.ResourceType=subnet" +
			"&TagSpecification.1.Tag.1.Key=a", "InvalidParameter"},
		{"an operation without dry runs", "AKIAROOT", "ModifyVpcAttribute", "VpcId=$VPC&EnableDnsSupport.Value=true",
			"UnknownParameter"},
		{"a page that is too large", "AKIAROOT", "DescribeLaunchTemplates", "MaxResults=201", "DryRunOperation"},
		{"a page that is too small", "AKIAROOT", "DescribeVpcs", "MaxResults=1", "DryRunOperation"},
		{"an unknown resource, by nobody", "AKIANOBODY", "DeleteVpc", "VpcId=vpc-" + gone, "UnauthorizedOperation"},
	} {
		if got := ask(c.key, c.action, c.query+"&DryRun=true"); got.Code != c.code {
			t.Errorf("%s: %+v, want %s", c.name, got, c.code)
		}
	}
	if got := ask("AKIAROOT", "DescribeVpcs", "DryRun=false"); got.status != http.StatusOK {
		t.Errorf("DryRun=false: %+v", got)
	}
	if after := w.Dump(); after != before {
		t.Error("a refused request changes the store")
	}
}

// response is the answer to a request of EC2.
type response struct {
	status  int
	Code    string `xml:"Errors>Error>Code"`
	Message string `xml:"Errors>Error>Message"`
}

// askEC2 sends a request to a mux, signed with an access key. A member Region is the region of the request.
func askEC2(t *testing.T, mux *wire.Mux, key string, query url.Values) response {
	t.Helper()
	region := ec2test.Region
	if r := query.Get("Region"); r != "" {
		region = r
		query.Del("Region")
	}
	body := query.Encode()
	request := httptest.NewRequest(http.MethodPost, "http://coracle.test/", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	hash := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: key, SecretAccessKey: "secret"}, request,
		hex.EncodeToString(hash[:]), "ec2", region, time.Now()); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	got := response{status: answer.Code}
	if err := xml.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, answer.Body)
	}
	return got
}

// expandQuery returns the parameters of a request, in which $NAME stands for a resource.
func expandQuery(action, query string, variables map[string]string) url.Values {
	values := url.Values{"Action": {action}, "Version": {wire.EC2.APIVersion}}
	names := slices.SortedFunc(maps.Keys(variables), func(a, b string) int { return len(b) - len(a) })
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		for _, v := range names {
			value = strings.ReplaceAll(value, "$"+v, variables[v])
		}
		values.Set(name, value)
	}
	return values
}
