package forward

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// tableOperations are those on one table, which TableName names, or on one of its indexes.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazondynamodb.html
var tableOperations = map[string]bool{
	"CreateBackup": true, "CreateTable": true, "DeleteItem": true, "DeleteTable": true,
	"DescribeContinuousBackups": true, "DescribeContributorInsights": true,
	"DescribeKinesisStreamingDestination": true, "DescribeTable": true, "DescribeTableReplicaAutoScaling": true,
	"DescribeTimeToLive": true, "DisableKinesisStreamingDestination": true,
	"EnableKinesisStreamingDestination": true, "GetItem": true, "PutItem": true, "Query": true, "Scan": true,
	"UpdateContinuousBackups": true, "UpdateContributorInsights": true, "UpdateItem": true,
	"UpdateKinesisStreamingDestination": true, "UpdateTable": true, "UpdateTableReplicaAutoScaling": true,
	"UpdateTimeToLive": true,
}

// indexOperations are those that IndexName means something to.
var indexOperations = map[string]bool{
	"DescribeContributorInsights": true, "Query": true, "Scan": true, "UpdateContributorInsights": true,
}

// resourceOperations are those on what an ARN names, with what that may be beside a table: a stream or backup of one.
var resourceOperations = map[string][]string{
	"DeleteResourcePolicy": {ofTable, ofStream}, "GetResourcePolicy": {ofTable, ofStream},
	"PutResourcePolicy": {ofTable, ofStream}, "ListTagsOfResource": {ofTable}, "TagResource": {ofTable},
	"UntagResource": {ofTable}, "DescribeBackup": {ofBackup}, "DeleteBackup": {ofBackup}, "DescribeStream": {ofStream},
	"GetShardIterator": {ofStream}, "GetRecords": {ofStream},
}

// What follows the name of a table in an ARN.
const (
	ofTable  = ""
	ofStream = "stream"
	ofBackup = "backup"
)

// listOperations are those that have no resource.
var listOperations = map[string]bool{
	"DescribeLimits": true, "ListBackups": true, "ListContributorInsights": true, "ListExports": true,
	"ListGlobalTables": true, "ListImports": true, "ListStreams": true, "ListTables": true,
}

// itemActions are the members of an item of a transaction, with the action of each.
var itemActions = map[string]string{
	"Get": "GetItem", "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem",
	"ConditionCheck": "ConditionCheckItem",
}

// dynamoKeys reports whether the value of a condition key is not read from requests, as it is of all of DynamoDB's.
var dynamoKeys = unreadKeys("dynamodb")

var (
	tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)
	// partName is that of a stream or backup of a table.
	partName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,255}$`)
	// iteratorStream is the ARN of the stream in an iterator: it is the first part, behind a version where DynamoDB Local
	// has made it.
	iteratorStream = regexp.MustCompile(`^(?:[0-9]{3}\|)?(arn:[^|]+)\|`)
)

// internalTables begins the names under which Alternator has the tables of ScyllaDB itself, users and their keys among
// them.
const internalTables = ".scylla.alternator."

// readDynamoDB returns what a request for Amazon DynamoDB asks for.
func readDynamoDB(r *wire.Forwarded) (*call, error) {
	operation, err := operationOf(r, "DynamoDB_20120810", "DynamoDBStreams_20120810")
	if err != nil {
		return nil, err
	}
	in := &dynamoInput{}
	body, err := readBody(r, in)
	if err != nil {
		return nil, err
	}
	c := jsonCall(wire.AWSJSON10, r.Header.Get("X-Amz-Target"), body)
	c.targets, err = in.targets(r, operation)
	return c, err
}

// dynamoInput has what inputs say about resources.
type dynamoInput struct {
	TableName      string
	IndexName      string
	ResourceARN    string `json:"ResourceArn"`
	BackupARN      string `json:"BackupArn"`
	StreamARN      string `json:"StreamArn"`
	ShardIterator  string
	ResourcePolicy string
	Tags           []json.RawMessage
	RequestItems   map[string]json.RawMessage
	TransactItems  []map[string]json.RawMessage
	// Replicas of tables are other operations' as well, and in other regions.
	ReplicaUpdates            []json.RawMessage
	GlobalTableSourceARN      string `json:"GlobalTableSourceArn"`
	GlobalTableWitnessUpdates []json.RawMessage
}

// targets returns what an operation needs permission for.
func (in *dynamoInput) targets(r *wire.Forwarded, operation string) ([]wire.Target, error) {
	on := func(action string, resources ...string) []wire.Target {
		return targetsOn(r, "dynamodb:"+action, nil, dynamoKeys, resources...)
	}
	switch {
	case len(in.ReplicaUpdates) > 0, len(in.GlobalTableWitnessUpdates) > 0, in.GlobalTableSourceARN != "":
		return nil, refuse("replicas of tables of DynamoDB")
	case tableOperations[operation]:
		resource, err := tableARN(r, in.TableName)
		if err != nil {
			return nil, err
		}
		targets := on(operation, resource)
		if in.IndexName != "" && indexOperations[operation] {
			if !tableName.MatchString(in.IndexName) {
				return nil, badName("name of an index", in.IndexName)
			}
			targets = on(operation, resource+"/index/"+in.IndexName)
		}
		if operation == "CreateTable" && len(in.Tags) > 0 {
			targets = append(targets, on("TagResource", resource)...)
		}
		if operation == "CreateTable" && in.ResourcePolicy != "" {
			targets = append(targets, on("PutResourcePolicy", resource)...)
		}
		return targets, nil
	case resourceOperations[operation] != nil:
		arn, err := in.arn(r, operation)
		if err != nil {
			return nil, err
		}
		return on(operation, arn), nil
	case listOperations[operation]:
		return on(operation), nil
	case operation == "BatchGetItem" || operation == "BatchWriteItem":
		var tables []string
		for _, name := range slices.Sorted(maps.Keys(in.RequestItems)) {
			arn, err := tableARN(r, name)
			if err != nil {
				return nil, err
			}
			tables = append(tables, arn)
		}
		return on(operation, tables...), nil
	case operation == "TransactGetItems" || operation == "TransactWriteItems":
		return in.transactionTargets(r, on)
	}
	return nil, refuse("the operation %s of DynamoDB", operation)
}

// arn returns the ARN that an operation is about.
func (in *dynamoInput) arn(r *wire.Forwarded, operation string) (string, error) {
	arn := in.ResourceARN
	switch operation {
	case "DescribeBackup", "DeleteBackup":
		arn = in.BackupARN
	case "DescribeStream", "GetShardIterator":
		arn = in.StreamARN
	case "GetRecords":
		found := iteratorStream.FindStringSubmatch(in.ShardIterator)
		if found == nil || strings.Count(strings.ToLower(in.ShardIterator), "arn:") != 1 {
			return "", refuse("GetRecords with an iterator that does not have the ARN of one stream")
		}
		arn = found[1]
	}
	rest, ok := strings.CutPrefix(arn, arnOf(r, "dynamodb", "table/"))
	if !ok {
		return "", notOurs(arn)
	}
	table, part, _ := strings.Cut(rest, "/")
	if _, err := tableARN(r, table); err != nil {
		return "", err
	}
	form, name, _ := strings.Cut(part, "/")
	if !slices.Contains(resourceOperations[operation], form) || (form == ofTable) != (table == rest) ||
		form != ofTable && !partName.MatchString(name) {
		return "", badName("ARN for "+operation, arn)
	}
	return arn, nil
}

// maxTransactItems is how many items a transaction may have.
const maxTransactItems = 100

// transactionTargets returns what a transaction needs permission for.
func (in *dynamoInput) transactionTargets(r *wire.Forwarded, on func(string, ...string) []wire.Target) (
	targets []wire.Target, err error) {
	if len(in.TransactItems) > maxTransactItems {
		return nil, &wire.Error{Code: "ValidationException", Status: http.StatusBadRequest,
			Message: fmt.Sprintf("The transaction has %d items; the maximum is %d.", len(in.TransactItems), maxTransactItems)}
	}
	for _, item := range in.TransactItems {
		for _, member := range slices.Sorted(maps.Keys(item)) {
			action, ok := itemActions[member]
			if !ok {
				return nil, refuse("the member %q of a transaction", member)
			}
			var one struct{ TableName string }
			if err := readMembers(item[member], &one); err != nil {
				return nil, err
			}
			table, err := tableARN(r, one.TableName)
			if err != nil {
				return nil, err
			}
			targets = append(targets, on(action, table)...)
		}
	}
	if len(targets) == 0 {
		return nil, &wire.Error{Code: "ValidationException", Status: http.StatusBadRequest,
			Message: "The transaction has no items."}
	}
	return targets, nil
}

// tableARN returns the ARN of a table by its name or ARN.
func tableARN(r *wire.Forwarded, name string) (string, error) {
	prefix := arnOf(r, "dynamodb", "table/")
	if strings.HasPrefix(name, "arn:") {
		var ok bool
		if name, ok = strings.CutPrefix(name, prefix); !ok {
			return "", notOurs(name)
		}
	}
	if !tableName.MatchString(name) {
		return "", badName("name of a table", name)
	}
	if strings.HasPrefix(strings.ToLower(name), internalTables) {
		return "", refuse("requests for the tables of ScyllaDB itself: %s", name)
	}
	return prefix + name, nil
}
