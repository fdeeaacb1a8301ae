package forward_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

// moto takes a body for a query, with an Action, before it reads X-Amz-Target and the JSON.
func TestBodiesAreNoQueries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, test := range []struct{ service, target, body, sent string }{
		{"secretsmanager", "secretsmanager.GetRandomPassword", `{"x":"&Action=GetSecretValue&SecretId=prod/db&y="}`,
			`{"x":"\u0026Action\u003DGetSecretValue\u0026SecretId\u003Dprod/db\u0026y\u003D"}`},
		{"dynamodb", "DynamoDB_20120810.ListTables", `{"&Action=Scan;":"\\& <%26> + ü", "n": -1.5e+3}`,
			`{"\u0026Action\u003DScan\u003B":"\\\u0026 \u003C\u002526\u003E + ü", "n": -1.5e+3}`},
		{"dynamodb", "DynamoDB_20120810.ListTables", ``, `{}`},
		{"dynamodb", "DynamoDB_20120810.ListTables", " \n{}\t", " \n{}\t"},
		{"dynamodb", "DynamoDB_20120810.ListTables", `{"x":"` + strings.Repeat("a&", 5000) + `"}`,
			`{"x":"` + strings.Repeat(`a\u0026`, 5000) + `"}`},
		{"secretsmanager", "secretsmanager.CreateSecret", `{"Name":"n","SecretString":"a=b"}`,
			`{"Name":"n","SecretString":"a\u003Db"}`},
		{"secretsmanager", "secretsmanager.PutSecretValue", `{"SecretId":"n","SecretString":"a=b","x":[1.0]}`,
			`{"SecretId":"n","SecretString":"a\u003Db","x":[1.0]}`},
	} {
		status, answer := f.post(t, f.Root, test.service, test.target, test.body)
		got := f.endpoint.last()
		if want := "POST " + test.target + "/ " + test.sent; status != http.StatusOK || got != want {
			t.Errorf("%s: %d %s: the endpoint got %.200q, not %.200q", test.target, status, answer, got, want)
		}
		_, sent, _ := strings.Cut(got, "/ ")
		if query, err := url.ParseQuery(sent); err != nil || len(query) != 1 {
			t.Errorf("%s: as a query the body is %q, %v", test.target, query, err)
		}
	}
}

func TestBodiesAreObjects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, body := range []string{"null", "[]", `"&Action=Scan&"`, "1", "{} {}", `{}&Action=Scan`, "{", " ", "\ufeff{}",
		"{\"x\":\"\xff\"}"} {
		status, answer := f.post(t, f.Root, "dynamodb", "DynamoDB_20120810.ListTables", body)
		if status != http.StatusBadRequest || !strings.Contains(answer, "SerializationException") || f.endpoint.last() != "" {
			t.Errorf("%q: %d %s", body, status, answer)
		}
	}
}

// Headers of the client's could say another region, form or coding.
func TestHeadersOfJSONRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, err := http.NewRequest(http.MethodPost, f.plain.URL+"/?Action=Scan", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Amz-Target": "DynamoDB_20120810.ListTables", "User-Agent": "x " +
		"region/us-west-2", "Content-Type": "application/x-www-form-urlencoded", "Content-Encoding": "gzip",
		"X-Moto-Account-Id": iamtest.Other, "Accept-Encoding": "gzip", "Cookie": "a=b"} {
		r.Header.Set(name, value)
	}
	sign(t, r, f.Root, "dynamodb", "")
	if status, answer := do(t, r); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	var names []string
	for name := range f.endpoint.header {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"Authorization", "Content-Length", "Content-Type", "User-Agent", "X-Amz-Date",
		"X-Amz-Target"}; !slices.Equal(names, want) {
		t.Errorf("sent with the headers %q", names)
	}
	if got := f.endpoint.header.Get("User-Agent"); got != "coracle" {
		t.Errorf("the User-Agent is %q", got)
	}
	if got := f.endpoint.header.Get("Content-Type"); got != "application/x-amz-json-1.0" {
		t.Errorf("the Content-Type is %q", got)
	}
	if got := f.endpoint.last(); got != "POST DynamoDB_20120810.ListTables/ {}" {
		t.Errorf("the endpoint got %q", got)
	}
}

func TestARNsOfTables(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := f.NewUser(t, "ada", `{"Statement":[{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"},
		{"Effect":"Deny","Action":"dynamodb:GetRecords","Resource":"arn:aws:dynamodb:*:*:table/secret/*"}]}`)
	const table = "arn:aws:dynamodb:us-east-1:111122223333:table/mine"
	for _, test := range []struct{ operation, member, value, says string }{
		{"TagResource", "ResourceArn", table, ""},
		{"TagResource", "ResourceArn", table + "/secret", "not a valid ARN"},
		{"TagResource", "ResourceArn", table + "/", "not a valid ARN"},
		{"TagResource", "ResourceArn", table + "/stream/2024-01-02T03:04:05.678", "not a valid ARN"},
		{"TagResource", "ResourceArn", table + "/index/i", "not a valid ARN"},
		{"PutResourcePolicy", "ResourceArn", table + "/stream/2024-01-02T03:04:05.678", ""},
		{"PutResourcePolicy", "ResourceArn", table + "/stream/x/y", "not a valid ARN"},
		{"PutResourcePolicy", "ResourceArn", table + "/backup/x", "not a valid ARN"},
		{"DescribeBackup", "BackupArn", table + "/backup/0123-abcd", ""},
		{"DeleteBackup", "BackupArn", table, "not a valid ARN"},
		{"DescribeStream", "StreamArn", table + "/stream/2024-01-02T03:04:05.678", ""},
		{"DescribeStream", "StreamArn", table + "/stream/", "not a valid ARN"},
		{"GetShardIterator", "StreamArn", table, "not a valid ARN"},
		{"GetRecords", "ShardIterator", table + "/stream/1|1|AAAA", ""},
		{"GetRecords", "ShardIterator", "000|" + table + "/stream/1|c2hhcmRJ", ""},
		{"GetRecords", "ShardIterator", "000|" + strings.Replace(table, "mine", "secret", 1) + "/stream/1|c2hhcmRJ",
			"explicit deny"},
		{"GetRecords", "ShardIterator", table + "|1|AAAA", "not a valid ARN"},
		{"GetRecords", "ShardIterator", table + "/stream/1|" + table + "/stream/1|AAAA", "the ARN of one stream"},
		{"GetRecords", "ShardIterator", "x|" + table + "/stream/1|AAAA", "the ARN of one stream"},
		{"GetRecords", "ShardIterator", "c2hhcmRJ", "the ARN of one stream"},
		{"GetRecords", "ShardIterator", "000|arn:aws:dynamodb:ddblocal:000000000000:table/mine/stream/1|c2hh",
			"what others have"},
		{"Scan", "TableName", ".scylla.alternator.system_auth.roles", "the tables of ScyllaDB itself"},
		{"Scan", "TableName", strings.Replace(table, "mine", ".Scylla.alternator.x.y", 1), "the tables of ScyllaDB itself"},
		{"TagResource", "ResourceArn", strings.Replace(table, "mine", ".scylla.alternator.x.y", 1),
			"the tables of ScyllaDB itself"},
	} {
		prefix := "DynamoDB_20120810."
		if strings.Contains(test.member, "Stream") || test.operation == "GetRecords" {
			prefix = "DynamoDBStreams_20120810."
		}
		status, answer := f.post(t, user, "dynamodb", prefix+test.operation, fmt.Sprintf(`{%q:%q}`, test.member, test.value))
		if (status == http.StatusOK) != (test.says == "") || !strings.Contains(answer, test.says) {
			t.Errorf("%s of %s: %d %s", test.operation, test.value, status, answer)
		}
		if sent := f.endpoint.last() != ""; sent != (test.says == "") {
			t.Errorf("%s of %s reached the endpoint: %v", test.operation, test.value, sent)
		}
	}
}

// secretARN returns the ARN of a secret of the caller's.
func secretARN(name string) string {
	return "arn:aws:secretsmanager:us-east-1:111122223333:secret:" + name
}

// addSecret gives the endpoint a secret. Its account and region there are others.
func (e *endpoint) addSecret(name, suffix, tags string) {
	if e.secrets == nil {
		e.secrets = map[string]string{}
	}
	e.secrets[`{"SecretId":"`+strings.ReplaceAll(name, "=", `\u003D`)+`"}`] = fmt.Sprintf(
		`{"ARN":"arn:aws:secretsmanager:eu-west-1:123456789012:secret:%s%s","Name":%q%s}`, name, suffix, name, tags)
}

// A policy may have the ARN of a secret that requests name by its name: it is resolved before it is authorized.
func TestSecretsAreResolved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.endpoint
	e.addSecret("prod/db", "-AbCdEf", "")
	e.addSecret("mine", "-123456", `,"Tags":[{"Key":"team","Value":"a"}]`)
	e.addSecret("team", "-XyZXyZ", "")
	e.addSecret("team-AbCdEf", "-000000", "") // whose ARN without its end looks like one of "team"
	e.addSecret("a=b", "-AbCdEf", "")
	e.secrets[`{"SecretId":"broken"}`] = `{"__type":"x#InternalServiceError"}`
	e.secrets[`{"SecretId":"nocode"}`] = `{"__type":7}`
	e.secrets[`{"SecretId":"text"}`] = `it's there`
	e.secrets[`{"SecretId":"long"}`] = `{"ARN":"` + strings.Repeat("x", 300<<10) + `"}`
	e.secrets[`{"SecretId":"other"}`] = strings.ReplaceAll(e.secrets[`{"SecretId":"mine"}`], `"mine"`, `"yours"`)
	e.secrets[`{"SecretId":"plain"}`] = `{"Name":"plain","ARN":"arn:aws:secretsmanager:r:a:secret:plain"}`
	all := f.NewUser(t, "all", `{"Statement":[{"Effect":"Allow","Action":"secretsmanager:*","Resource":"*"},
		{"Effect":"Deny","Action":"secretsmanager:GetSecretValue","Resource":"`+secretARN("prod/db-AbCdEf")+`"},
		{"Effect":"Deny","Action":"secretsmanager:GetSecretValue","Resource":"`+secretARN("team-AbCdEf-??????")+`"}]}`)
	exact := f.NewUser(t, "exact", `{"Statement":[{"Effect":"Allow","Action":"secretsmanager:*Secret*","Resource":["`+
		secretARN("mine-123456")+`","`+secretARN("team-AbCdEf")+`","`+secretARN("none-??????")+`"]}]}`)
	tagged := f.NewUser(t, "tagged", `{"Statement":[{"Effect":"Allow","Action":"secretsmanager:*","Resource":"*",
		"Condition":{"StringEquals":{"aws:ResourceTag/team":"a"}}},{"Effect":"Deny","Action":"*","Resource":"*",
		"Condition":{"StringEquals":{"secretsmanager:ResourceTag/level":"high"}}}]}`)
	nobody := f.NewUser(t, "nobody", `{"Statement":{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}}`)
	const get, batch = "GetSecretValue", "BatchGetSecretValue"
	for name, test := range map[string]struct {
		with            aws.Credentials
		operation, body string
		status          int
		says, sent      string
	}{
		"by name": {all, get, `{"SecretId":"mine"}`, 200, "", `{"SecretId":"mine"}`},
		"by ARN": {all, get, `{"x":1,"SecretId":"` + secretARN("mine-123456") + `"}`, 200, "",
			`{"SecretId":"mine","x":1}`},
		"=":              {all, get, `{"SecretId":"a=b"}`, 200, "", `{"SecretId":"a\u003Db"}`},
		"denied by ARN":  {all, get, `{"SecretId":"prod/db"}`, 400, "explicit deny", ""},
		"denied for ARN": {all, get, `{"SecretId":"` + secretARN("prod/db-AbCdEf") + `"}`, 400, "explicit deny", ""},
		"denied in a batch": {all, batch, `{"SecretIdList":["mine","prod/db"]}`, 400,
			"GetSecretValue on resource: " + secretARN("prod/db-??????"), ""},
		"a batch": {all, batch, `{"SecretIdList":["mine","` + secretARN("mine-123456") + `"]}`, 200, "",
			`{"SecretIdList":["mine","mine"]}`},
		"a large batch": {all, batch, `{"SecretIdList":["mine"` + strings.Repeat(`,"mine"`, 20) + `]}`, 400,
			"the maximum is 20", ""},
		"a filter beside": {all, batch, `{"SecretIdList":["mine"],"Filters":[]}`, 501, "filters", ""},
		"another's ARN": {all, get, `{"SecretId":"` + secretARN("team-AbCdEf") + `"}`, 400,
			"ResourceNotFoundException", ""},
		"that may be asked for": {exact, get, `{"SecretId":"` + secretARN("team-AbCdEf") + `"}`, 400,
			"ResourceNotFoundException", ""},
		"that may not be": {exact, get, `{"SecretId":"` + secretARN("team-AbCdEg") + `"}`, 400,
			"AccessDeniedException", ""},
		"exactly":       {exact, get, `{"SecretId":"mine"}`, 200, "", `{"SecretId":"mine"}`},
		"another":       {exact, get, `{"SecretId":"team"}`, 400, "on resource: " + secretARN("team-??????"), ""},
		"none":          {exact, get, `{"SecretId":"none"}`, 200, "", `{"SecretId":"none"}`},
		"none by ARN":   {exact, get, `{"SecretId":"` + secretARN("none-123456") + `"}`, 200, "", `{"SecretId":"none"}`},
		"by tag":        {tagged, get, `{"SecretId":"mine"}`, 200, "", `{"SecretId":"mine"}`},
		"without tag":   {tagged, get, `{"SecretId":"team"}`, 400, "AccessDeniedException", ""},
		"tags of none":  {tagged, get, `{"SecretId":"none"}`, 400, "AccessDeniedException", ""},
		"an error":      {all, get, `{"SecretId":"broken"}`, 503, "InternalServiceError", ""},
		"no code":       {all, get, `{"SecretId":"nocode"}`, 503, "without a code", ""},
		"no JSON":       {all, get, `{"SecretId":"text"}`, 503, "no JSON", ""},
		"a long answer": {all, get, `{"SecretId":"long"}`, 503, "too long", ""},
		"another name":  {all, get, `{"SecretId":"other"}`, 503, "the name that was asked for", ""},
		"no suffix":     {all, get, `{"SecretId":"plain"}`, 503, "the name that was asked for", ""},
		"who may not":   {nobody, get, `{"SecretId":"broken"}`, 400, "AccessDeniedException", ""},
		"an ARN as a name": {all, "CreateSecret", `{"Name":"` + secretARN("mine-123456") + `"}`, 400,
			"not a valid name", ""},
		"a long body": {all, get, `{"SecretId":"mine","x":"` + strings.Repeat("x", 1<<20) + `"}`, 400,
			"too long", ""},
	} {
		e.last()
		status, answer := f.post(t, test.with, "secretsmanager", "secretsmanager."+test.operation, test.body)
		if status != test.status || !strings.Contains(answer, test.says) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		want := ""
		if test.sent != "" {
			want = "POST secretsmanager." + test.operation + "/ " + test.sent
		}
		if got := e.last(); got != want {
			t.Errorf("%s: the endpoint got %q, not %q", name, got, want)
		}
	}
	e.asked = nil
	if status, answer := f.post(t, nobody, "secretsmanager", "secretsmanager."+batch, `{"SecretIdList":["mine"]}`); len(
		e.asked) != 0 {
		t.Errorf("%d %s: the endpoint was asked %q", status, answer, e.asked)
	}
	f.secret.Store("another")
	if status, answer := f.post(t, all, "secretsmanager", "secretsmanager."+get, `{"SecretId":"mine"}`); status !=
		http.StatusServiceUnavailable || !strings.Contains(answer, "forward-credentials") {
		t.Errorf("refused credentials: %d %s", status, answer)
	}
	e.Close()
	if status, answer := f.post(t, all, "secretsmanager", "secretsmanager."+get, `{"SecretId":"mine"}`); status !=
		http.StatusServiceUnavailable || !strings.Contains(answer, "does not answer") {
		t.Errorf("an endpoint that is away: %d %s", status, answer)
	}
	if status, answer := f.post(t, nobody, "secretsmanager", "secretsmanager."+get, `{"SecretId":"mine"}`); status !=
		http.StatusBadRequest || !strings.Contains(answer, "AccessDeniedException") {
		t.Errorf("an endpoint that is away, for who may not: %d %s", status, answer)
	}
}

// Replicas of tables and secrets are other operations', and in other regions.
func TestReplicasAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for target, body := range map[string]string{
		"DynamoDB_20120810.UpdateTable": `{"TableName":"t","ReplicaUpdates":[{"Create":{"RegionName":"us-west-2"}}]}`,
		"DynamoDB_20120810.CreateTable": `{"TableName":"t","GlobalTableSourceArn":"arn:aws:dynamodb:us-west-2:1:table/t"}`,
		"secretsmanager.CreateSecret":   `{"Name":"s","AddReplicaRegions":[{"Region":"us-west-2"}]}`,
	} {
		service, _, _ := strings.Cut(strings.ToLower(target), "_")
		service, _, _ = strings.Cut(service, ".")
		if _, answer := f.post(t, f.Root, service, target, body); !strings.Contains(answer, "NotImplemented") ||
			f.endpoint.last() != "" {
			t.Errorf("%s: %s", target, answer)
		}
	}
}
