package logs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
)

// post sends a body that no SDK would send.
func (w *fixture) post(operation, body string) (status int, code, message string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "Logs_20140328."+operation)
	hash := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(w.t.Context(), aws.Credentials{AccessKeyID: "AKIAROOT",
		SecretAccessKey: "secret"}, r, hex.EncodeToString(hash[:]), "logs", region, time.Now()); err != nil {
		w.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var answer struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		w.t.Fatalf("%s: %v\n%s", operation, err, text)
	}
	return res.StatusCode, answer.Type, answer.Message
}

// Each bad request is refused with AWS's code, and with its message where that is known.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.mu.Lock()
	w.clock = time.Now().UTC() // the signatures of post are of now
	now := w.clock.UnixMilli()
	w.mu.Unlock()
	ctx := t.Context()
	w.group("g", "s")
	w.group("protected", "s")
	if _, err := w.client.PutLogGroupDeletionProtection(ctx,
		&cloudwatchlogs.PutLogGroupDeletionProtectionInput{LogGroupIdentifier: aws.String("protected"),
			DeletionProtectionEnabled: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	for _, class := range []string{"INFREQUENT_ACCESS", "DELIVERY"} {
		if status, code, message := w.post("CreateLogGroup", fmt.Sprintf(`{"logGroupName":%q,"logGroupClass":%q}`,
			class, class)); status != 200 {
			t.Fatal(code, message)
		}
	}
	w.group("short")
	w.post("PutRetentionPolicy", `{"logGroupName":"short","retentionInDays":1}`)
	tags := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":"v"`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	if status, code, message := w.post("TagLogGroup", `{"logGroupName":"g","tags":`+tags(50)+`}`); status != 200 {
		t.Fatal(code, message)
	}
	const (
		invalid   = "InvalidParameterException"
		missing   = "ResourceNotFoundException"
		exists    = "ResourceAlreadyExistsException"
		malformed = "MalformedQueryException"
		one       = "1 validation error detected: Value "
		noGroup   = "The specified log group does not exist."
		noStream  = "The specified log stream does not exist."
		badToken  = "The specified nextToken is invalid."
	)
	x := strings.Repeat
	event := func(at int64, message string) string {
		return fmt.Sprintf(`{"timestamp":%d,"message":%q}`, at, message)
	}
	put := func(events ...string) string {
		return `{"logGroupName":"g","logStreamName":"s","logEvents":[` + strings.Join(events, ",") + `]}`
	}
	query := func(rest string) string { return `{"startTime":0,"endTime":4102444800,` + rest + `}` }
	many := func(n int, format string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return strings.Join(list, ",")
	}
	for _, c := range []struct{ operation, body, code, message string }{
		// Groups
		{"CreateLogGroup", `{}`, invalid,
			one + "null at 'logGroupName' failed to satisfy constraint: Member must not be null"},
		{"CreateLogGroup", `{"logGroupName":""}`, invalid, ""},
		{"CreateLogGroup", `{"logGroupName":"` + x("x", 513) + `"}`, invalid,
			"Member must have length less than or equal to 512"},
		{"CreateLogGroup", `{"logGroupName":"a b"}`, invalid,
			one + `'a b' at 'logGroupName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\.\-_/#A-Za-z0-9]+`},
		{"CreateLogGroup", `{"logGroupName":"a:b"}`, invalid, one + "'a:b' at 'logGroupName'"},
		{"CreateLogGroup", `{"logGroupName":"aws/mine"}`, invalid,
			"Log groups starting with AWS/ are reserved for AWS."},
		{"CreateLogGroup", `{"logGroupName":"AWS/mine"}`, invalid,
			"Log groups starting with AWS/ are reserved for AWS."},
		{"CreateLogGroup", `{"logGroupName":"g"}`, exists, "The specified log group already exists"},
		{"CreateLogGroup", `{"logGroupName":"n","logGroupClass":"CHEAP"}`, invalid,
			one + "'CHEAP' at 'logGroupClass' failed to satisfy constraint: Member must satisfy enum value set: ["},
		{"CreateLogGroup", `{"logGroupName":"n","kmsKeyId":"arn:aws:kms:eu-west-1:111122223333:key/1234"}`, invalid,
			"KMS is not implemented by Coracle"},
		{"CreateLogGroup", `{"logGroupName":"n","kmsKeyId":"1234"}`, invalid,
			"The specified KMS key 1234 is not the ARN of a KMS key"},
		{"CreateLogGroup", `{"logGroupName":"n","tags":{"aws:x":"y"}}`, invalid, "the prefix aws: is reserved"},
		{"CreateLogGroup", `{"logGroupName":"n","tags":{"` + x("k", 129) + `":"y"}}`, invalid,
			"can't be longer than 128 characters"},
		{"CreateLogGroup", `{"logGroupName":"n","tags":{"k":"` + x("v", 257) + `"}}`, invalid,
			"can't be longer than 256 characters"},
		{"CreateLogGroup", `{"logGroupName":"n","tags":{"a*":"y"}}`, invalid,
			"'a*' at 'tags' failed to satisfy constraint"},
		{"CreateLogGroup", `{"logGroupName":"n","tags":` + tags(51) + `}`, invalid, "less than or equal to 50"},
		{"CreateLogGroup", `{"logGroupName":7}`, "SerializationException", ""},
		{"CreateLogGroup", `{"logGroupName":`, "SerializationException", ""},
		{"CreateLogGroups", `{}`, "UnknownOperationException", ""},
		{"DeleteLogGroup", `{"logGroupName":"nobody"}`, missing, noGroup},
		{"DeleteLogGroup", `{"logGroupName":"protected"}`, "ValidationException", "deletion protection is enabled"},
		{"PutLogGroupDeletionProtection", `{"logGroupIdentifier":"nobody","deletionProtectionEnabled":true}`, missing,
			noGroup},
		{"PutLogGroupDeletionProtection", `{"logGroupIdentifier":"a b","deletionProtectionEnabled":true}`, invalid,
			one + "'a b' at 'logGroupIdentifier'"},
		{"PutLogGroupDeletionProtection", `{"logGroupIdentifier":"g"}`, invalid,
			one + "null at 'deletionProtectionEnabled'"},
		{"DescribeLogGroups", `{"logGroupNamePrefix":"a","logGroupNamePattern":"b"}`, invalid,
			"LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters."},
		{"DescribeLogGroups", `{"limit":51}`, invalid,
			one + "'51' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 50"},
		{"DescribeLogGroups", `{"limit":0}`, invalid,
			one + "'0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"DescribeLogGroups", `{"nextToken":"abc"}`, invalid, ""},
		{"DescribeLogGroups", `{"accountIdentifiers":["111122223333"]}`, invalid, "includeLinkedAccounts"},
		{"DescribeLogGroups", `{"accountIdentifiers":["1"],"includeLinkedAccounts":true}`, invalid,
			one + "'1' at 'accountIdentifiers'"},
		{"DescribeLogGroups", `{"logGroupIdentifiers":["g"],"logGroupNamePrefix":"g"}`, invalid,
			"logGroupIdentifiers can't be combined"},
		{"DescribeLogGroups", `{"logGroupIdentifiers":[` + many(51, `"g%d"`) + `]}`, invalid,
			"can have 50 members, but has 51"},
		{"ListLogGroups", `{"limit":1001}`, invalid, "1001"},
		{"ListLogGroups", `{"logGroupNamePattern":"ab"}`, invalid, "3 to 24 characters"},
		{"ListLogGroups", `{"logGroupNamePattern":"aaa|bbb|ccc|ddd|eee|fff"}`, invalid, "five patterns"},
		{"PutRetentionPolicy", `{"logGroupName":"g","retentionInDays":2}`, invalid,
			one + "'2' at 'retentionInDays' failed to satisfy constraint: Member must satisfy enum value set: [1, 3, " +
				"5, 7, 14, 30,"},
		{"PutRetentionPolicy", `{"logGroupName":"g","retentionInDays":0}`, invalid, one + "'0' at 'retentionInDays'"},
		{"PutRetentionPolicy", `{"logGroupName":"g"}`, invalid, one + "null at 'retentionInDays'"},
		{"PutRetentionPolicy", `{"logGroupName":"nobody","retentionInDays":1}`, missing, noGroup},
		{"PutRetentionPolicy", `{"logGroupName":"DELIVERY","retentionInDays":7}`, invalid, "DELIVERY"},
		{"DeleteRetentionPolicy", `{"logGroupName":"nobody"}`, missing, noGroup},
		{"AssociateKmsKey", `{"logGroupName":"g","kmsKeyId":"arn:aws:kms:eu-west-1:111122223333:key/1234"}`, invalid,
			"KMS is not implemented by Coracle"},
		{"AssociateKmsKey", `{"logGroupName":"nobody","kmsKeyId":"arn:aws:kms:eu-west-1:111122223333:key/1234"}`,
			missing, noGroup},
		{"PutMetricFilter", `{}`, "NotImplemented", "PutMetricFilter is not implemented by coracle"},
		{"PutSubscriptionFilter", `{}`, "NotImplemented", "PutSubscriptionFilter is not implemented by coracle"},
		// Streams
		{"CreateLogStream", `{"logGroupName":"nobody","logStreamName":"s"}`, missing, noGroup},
		{"CreateLogStream", `{"logGroupName":"g","logStreamName":"s"}`, exists,
			"The specified log stream already exists"},
		{"CreateLogStream", `{"logGroupName":"g","logStreamName":"a:b"}`, invalid,
			one + "'a:b' at 'logStreamName' failed to satisfy constraint: Member must satisfy regular expression " +
				"pattern: [^:*]*"},
		{"CreateLogStream", `{"logGroupName":"g","logStreamName":"` + x("s", 513) + `"}`, invalid,
			"less than or equal to 512"},
		{"CreateLogStream", `{}`, invalid, "2 validation errors detected: Value null at 'logGroupName'"},
		{"DeleteLogStream", `{"logGroupName":"nobody","logStreamName":"s"}`, missing, noGroup},
		{"DeleteLogStream", `{"logGroupName":"g","logStreamName":"nobody"}`, missing, noStream},
		{"DeleteLogStream", `{"logGroupName":"protected","logStreamName":"s"}`, "ValidationException",
			"deletion protection"},
		{"DescribeLogStreams", `{}`, invalid, "Either logGroupName or logGroupIdentifier must be specified"},
		{"DescribeLogStreams", `{"logGroupName":"g","logGroupIdentifier":"g"}`, invalid, "mutually exclusive"},
		{"DescribeLogStreams", `{"logGroupName":"nobody"}`, missing, noGroup},
		{"DescribeLogStreams", `{"logGroupName":"g","orderBy":"LastEventTime","logStreamNamePrefix":"s"}`, invalid,
			"Cannot order by LastEventTime with a logStreamNamePrefix."},
		{"DescribeLogStreams", `{"logGroupName":"g","orderBy":"sth"}`, invalid,
			one + "'sth' at 'orderBy' failed to satisfy constraint: Member must satisfy enum value set: " +
				"[LogStreamName, LastEventTime]"},
		{"DescribeLogStreams", `{"logGroupName":"g","limit":100}`, invalid,
			one + "'100' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 50"},
		{"DescribeLogStreams", `{"logGroupIdentifier":"arn:aws:logs:eu-west-1:111122223333:log-group:g:*"}`, invalid,
			"at 'logGroupIdentifier' failed to satisfy constraint"},
		{"DescribeLogStreams", `{"logGroupIdentifier":"arn:aws:logs:eu-west-1:111122223333:g"}`, invalid,
			"is not the ARN of a log group"},
		{"DescribeLogStreams", `{"logGroupIdentifier":"arn:aws:logs:us-east-1:111122223333:log-group:g"}`, missing,
			noGroup},
		// Tags
		{"TagResource", `{"resourceArn":"arn:aws:logs:eu-west-1:111122223333:log-group:g","tags":{"more":"x"}}`,
			"TooManyTagsException", "exceeds the limit of 50"},
		{"TagResource", `{"resourceArn":"arn:aws:logs:eu-west-1:111122223333:log-group:nobody","tags":{"a":"b"}}`,
			missing, noGroup},
		{"TagResource", `{"resourceArn":"arn:aws:eks:eu-west-1:111122223333:cluster/c","tags":{"a":"b"}}`, invalid,
			"is not the ARN of a log group"},
		{"TagResource", `{"resourceArn":"arn:aws:logs:eu-west-1:111122223333:log-group:g","tags":{}}`, invalid,
			"greater than or equal to 1"},
		{"TagResource", `{"resourceArn":"arn:aws:logs:eu-west-1:111122223333:log-group:g","tags":{"AWS:x":"b"}}`,
			invalid, "reserved"},
		{"UntagResource", `{"resourceArn":"arn:aws:logs:eu-west-1:111122223333:log-group:nobody","tagKeys":["a"]}`,
			missing, noGroup},
		{"ListTagsForResource", `{"resourceArn":"g"}`, invalid, "is not the ARN of a log group"},
		{"TagLogGroup", `{"logGroupName":"nobody","tags":{"a":"b"}}`, missing, noGroup},
		{"UntagLogGroup", `{"logGroupName":"nobody","tags":["a"]}`, missing, noGroup},
		{"ListTagsLogGroup", `{"logGroupName":"nobody"}`, missing, noGroup},
		// Events in
		{"PutLogEvents", `{"logGroupName":"nobody","logStreamName":"s","logEvents":[` + event(now, "m") + `]}`, missing,
			noGroup},
		{"PutLogEvents", `{"logGroupName":"g","logStreamName":"nobody","logEvents":[` + event(now, "m") + `]}`, missing,
			noStream},
		{"PutLogEvents", put(), invalid,
			one + "'[]' at 'logEvents' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"PutLogEvents", put(event(now, "")), invalid,
			"at 'logEvents.1.member.message' failed to satisfy constraint: Member must have length greater than or " +
				"equal to 1"},
		{"PutLogEvents", put(`{"message":"m"}`), invalid,
			one + "null at 'logEvents.1.member.timestamp' failed to satisfy constraint: Member must not be null"},
		{"PutLogEvents", put(fmt.Sprintf(`{"timestamp":%d}`, now)), invalid,
			one + "null at 'logEvents.1.member.message' failed to satisfy constraint: Member must not be null"},
		{"PutLogEvents", put(event(-1, "m")), invalid,
			one + "'-1' at 'logEvents.1.member.timestamp' failed to satisfy constraint: Member must have value " +
				"greater than or equal to 0"},
		{"PutLogEvents", put(event(now, "b"), event(now-1, "a")), invalid,
			"Log events in a single PutLogEvents request must be in chronological order."},
		{"PutLogEvents", put(event(now-90000000, "a"), event(now, "b")), invalid,
			"The batch of log events in a single PutLogEvents request cannot span more than 24 hours."},
		{"PutLogEvents", put(event(now, x("x", 1<<20-25))), invalid,
			"Log event too large: 1048577 bytes exceeds limit of 1048576"},
		{"PutLogEvents", put(event(now, x("x", 1<<19)), event(now, x("ä", 1<<18))), invalid,
			"Upload too large: 1048628 bytes exceeds limit of 1048576"},
		{"PutLogEvents", put(many(10001, fmt.Sprintf(`{"timestamp":%d,"message":"%%d"}`, now))), invalid,
			"Member must have length less than or equal to 10000"},
		{"PutLogEvents", put(`{"timestamp":"noon","message":"m"}`), "SerializationException", ""},
		// Events out
		{"GetLogEvents", `{"logStreamName":"s"}`, invalid,
			"Either logGroupName or logGroupIdentifier must be specified"},
		{"GetLogEvents", `{"logGroupName":"g"}`, invalid, one + "null at 'logStreamName'"},
		{"GetLogEvents", `{"logGroupName":"nobody","logStreamName":"s"}`, missing, noGroup},
		{"GetLogEvents", `{"logGroupName":"g","logStreamName":"nobody"}`, missing, noStream},
		{"GetLogEvents", `{"logGroupName":"g","logStreamName":"s","limit":10001}`, invalid,
			one + "'10001' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 10000"},
		{"GetLogEvents", `{"logGroupName":"g","logStreamName":"s","startTime":-1}`, invalid,
			one + "'-1' at 'startTime' failed to satisfy constraint: Member must have value greater than or equal to 0"},
		{"GetLogEvents", `{"logGroupName":"g","logStreamName":"s","startTime":2,"endTime":1}`, invalid, "earlier"},
		{"GetLogEvents", `{"logGroupName":"g","logStreamName":"s","nextToken":"x"}`, invalid, badToken},
		{"GetLogEvents", `{"logGroupName":"g","logStreamName":"s","nextToken":"f/123/s"}`, invalid, badToken},
		{"GetLogEvents", `{"logGroupName":"g","logStreamName":"s","nextToken":"x/` + x("0", 56) + `/s"}`, invalid,
			badToken},
		{"GetLogEvents", `{"logGroupName":"g","logStreamName":"s","nextToken":"f/` + x("9", 56) + `/s"}`, invalid,
			badToken},
		{"GetLogEvents", `{"logGroupName":"INFREQUENT_ACCESS","logStreamName":"s"}`, invalid, "INFREQUENT_ACCESS"},
		{"FilterLogEvents", `{}`, invalid, "Either logGroupName or logGroupIdentifier must be specified"},
		{"FilterLogEvents", `{"logGroupName":"nobody"}`, missing, noGroup},
		{"FilterLogEvents", `{"logGroupName":"g","logStreamNames":["s"],"logStreamNamePrefix":"s"}`, invalid,
			"mutually exclusive"},
		{"FilterLogEvents", `{"logGroupName":"g","logStreamNames":["nobody"]}`, missing, noStream},
		{"FilterLogEvents", `{"logGroupName":"g","logStreamNames":[]}`, invalid, "greater than or equal to 1"},
		{"FilterLogEvents", `{"logGroupName":"g","logStreamNames":[` + many(101, `"s%d"`) + `]}`, invalid,
			"less than or equal to 100"},
		{"FilterLogEvents", `{"logGroupName":"g","filterPattern":"{ $.a = "}`, invalid, "Invalid filter pattern"},
		{"FilterLogEvents", `{"logGroupName":"g","filterPattern":"` + x("a", 1025) + `"}`, invalid,
			"less than or equal to 1024"},
		{"FilterLogEvents", `{"logGroupName":"g","nextToken":"x"}`, invalid, badToken},
		{"FilterLogEvents", `{"logGroupName":"g","startTime":2,"endTime":1}`, invalid, "earlier"},
		{"FilterLogEvents", `{"logGroupName":"g","startFromHead":false}`, invalid, "2024-01-01"},
		{"FilterLogEvents", `{"logGroupName":"INFREQUENT_ACCESS"}`, invalid, "INFREQUENT_ACCESS"},
		{"GetLogRecord", `{"logRecordPointer":"x"}`, invalid, "is not the value of a @ptr field"},
		{"GetLogRecord", `{"logRecordPointer":"` + x("0", 39) + `"}`, missing,
			"The specified log record does not exist."},
		{"GetLogGroupFields", `{}`, invalid, "Either logGroupName"},
		{"GetLogGroupFields", `{"logGroupName":"nobody"}`, missing, noGroup},
		{"TestMetricFilter", `{"filterPattern":"[a","logEventMessages":["m"]}`, invalid, "Invalid filter pattern"},
		{"TestMetricFilter", `{"filterPattern":"a","logEventMessages":[]}`, invalid, "greater than or equal to 1"},
		// Queries
		{"StartQuery", query(`"logGroupName":"nobody","queryString":"fields @message"`), missing,
			"Log group 'nobody' does not exist for account ID '111122223333'"},
		{"StartQuery", query(`"queryString":"fields @message"`), invalid, "names no log group"},
		{"StartQuery", query(`"logGroupName":"g","logGroupNames":["g"],"queryString":"fields @message"`), invalid,
			"Exactly one of logGroupName, logGroupNames and logGroupIdentifiers"},
		{"StartQuery", query(`"logGroupNames":[` + many(51, `"g%d"`) + `],"queryString":"fields @message"`), invalid,
			"up to 50 log groups"},
		{"StartQuery",
			query(`"logGroupIdentifiers":["arn:aws:logs:eu-west-1:111122223333:log-group:g:*"],"queryString":"fields @message"`), invalid, ""},
		{"StartQuery", query(`"logGroupName":"g","queryString":"SOURCE logGroups() | fields @message"`), invalid,
			"SOURCE"},
		{"StartQuery", query(`"queryString":"SOURCE logGroups(namePrefix: ['nobody']) | fields @message"`), missing,
			"No log group matches"},
		{"StartQuery", query(`"logGroupName":"g","queryString":""`), malformed, ""},
		{"StartQuery", query(`"logGroupName":"g","queryString":"filter a and objectRef.resource verb == 'create'"`),
			malformed, "line 1"},
		{"StartQuery", query(`"logGroupName":"g","queryString":"fields nosuchfunction(a)"`), malformed,
			"nosuchfunction"},
		{"StartQuery", query(`"logGroupName":"g","queryString":"` + x("x", 10001) + `"`), invalid,
			"less than or equal to 10000"},
		{"StartQuery", query(`"logGroupName":"g","queryString":"fields @message","limit":0`), invalid,
			one + "'0' at 'limit'"},
		{"StartQuery", query(`"logGroupName":"g","queryString":"fields @message","limit":10001`), invalid,
			one + "'10001' at 'limit'"},
		{"StartQuery", query(`"logGroupName":"g","queryString":"source=g","queryLanguage":"PPL"`), invalid,
			"PPL is not implemented by Coracle"},
		{"StartQuery", query(`"queryString":"select 1","queryLanguage":"SQL"`), invalid,
			"SQL is not implemented by Coracle"},
		{"StartQuery", query(`"logGroupName":"DELIVERY","queryString":"fields @message"`), invalid, "DELIVERY"},
		{"StartQuery", `{"logGroupName":"g","startTime":10,"endTime":9,"queryString":"fields @message"}`, invalid,
			"later than its endTime"},
		{"StartQuery", `{"logGroupName":"g","startTime":10,"queryString":"fields @message"}`, invalid,
			one + "null at 'endTime'"},
		{"StartQuery", `{"logGroupName":"g","startTime":-1,"endTime":1,"queryString":"fields @message"}`, invalid,
			one + "'-1' at 'startTime'"},
		{"StartQuery",
			`{"logGroupName":"g","startTime":0,"endTime":9223372036854775807,"queryString":"fields @message"}`, invalid,
			"too late"},
		{"StartQuery", `{"logGroupName":"short","startTime":0,"endTime":1000,"queryString":"fields @message"}`,
			malformed,
			"Query's end date and time is either before the log groups creation time or exceeds the log groups log " +
				"retention settings"},
		{"GetQueryResults", `{"queryId":"nobody"}`, missing, "does not exist"},
		{"GetQueryResults", `{"queryId":"nobody","maxItems":10001}`, invalid, "10001"},
		{"StopQuery", `{"queryId":"nobody"}`, missing, "does not exist"},
		{"DescribeQueries", `{"status":"Sleeping"}`, invalid,
			one + "'Sleeping' at 'status' failed to satisfy constraint: Member must satisfy enum value set: ["},
		{"DescribeQueries", `{"maxResults":1001}`, invalid, one + "'1001' at 'maxResults'"},
		{"ListLogGroupsForQuery", `{"queryId":"nobody"}`, missing, "does not exist"},
		{"PutQueryDefinition", `{"name":"n"}`, invalid, one + "null at 'queryString'"},
		{"PutQueryDefinition", `{"name":"a//b","queryString":"fields a"}`, invalid, "folders"},
		{"PutQueryDefinition", `{"name":"n","queryString":"fields a","queryDefinitionId":"nobody"}`, missing,
			"The specified query definition does not exist."},
		{"PutQueryDefinition", `{"name":"n","queryString":"fields a","clientToken":"short"}`, invalid,
			"at 'clientToken'"},
		{"PutQueryDefinition", `{"name":"n","queryString":"fields a","queryLanguage":"SQL"}`, invalid,
			"SQL is not implemented"},
		{"PutQueryDefinition", `{"name":"n","queryString":"fields a","logGroupNames":["a b"]}`, invalid,
			one + "'a b' at 'logGroupNames'"},
		{"PutQueryDefinition", `{"name":"n","queryString":"fields a","parameters":[{"name":"1a"}]}`, invalid,
			"must start with a letter"},
		{"DeleteQueryDefinition", `{"queryDefinitionId":"nobody"}`, missing,
			"The specified query definition does not exist."},
	} {
		status, code, message := w.post(c.operation, c.body)
		want := 400
		if c.code == "NotImplemented" {
			want = 501
		}
		body := c.body
		if len(body) > 150 {
			body = body[:150] + "..."
		}
		if status != want || code != c.code || !strings.Contains(message, c.message) {
			t.Errorf("%s %s:\n%d %s: %s\nwant %s: %s", c.operation, body, status, code, message, c.code, c.message)
		}
	}
}
