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

// resourceOperations are those on what an ARN names.
var resourceOperations = map[string]bool{
	"DeleteResourcePolicy": true, "GetResourcePolicy": true, "ListTagsOfResource": true, "PutResourcePolicy": true,
	"TagResource": true, "UntagResource": true, "DescribeBackup": true, "DeleteBackup": true, "DescribeStream": true,
	"GetShardIterator": true,
}

// listOperations are those that have no resource.
var listOperations = map[string]bool{
	"DescribeLimits": true, "ListBackups": true, "ListContributorInsights": true, "ListExports": true,
	"ListGlobalTables": true, "ListImports": true, "ListStreams": true, "ListTables": true, "GetRecords": true,
}

// itemActions are the members of an item of a transaction, with the action of each.
var itemActions = map[string]string{
	"Get": "GetItem", "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem",
	"ConditionCheck": "ConditionCheckItem",
}

// dynamoKeys reports whether the value of a condition key is not read from requests, as it is of all of DynamoDB's.
var dynamoKeys = unreadKeys("dynamodb")

var (
	tableName  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)
	tableParts = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}(/[A-Za-z0-9_.:-]+)*$`)
)

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
	ResourcePolicy string
	Tags           []json.RawMessage
	RequestItems   map[string]json.RawMessage
	TransactItems  []map[string]json.RawMessage
}

// targets returns what an operation needs permission for.
func (in *dynamoInput) targets(r *wire.Forwarded, operation string) ([]wire.Target, error) {
	on := func(action string, resources ...string) []wire.Target {
		return targetsOn(r, "dynamodb:"+action, nil, dynamoKeys, resources...)
	}
	switch {
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
	case resourceOperations[operation]:
		arn := in.ResourceARN
		switch operation {
		case "DescribeBackup", "DeleteBackup":
			arn = in.BackupARN
		case "DescribeStream", "GetShardIterator":
			arn = in.StreamARN
		}
		if name, ok := strings.CutPrefix(arn, arnOf(r, "dynamodb", "table/")); !ok || !tableParts.MatchString(name) {
			return nil, notOurs(arn)
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
	return prefix + name, nil
}
