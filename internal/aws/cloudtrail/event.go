package cloudtrail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// maxParameters is the size of requestParameters and of responseElements, in bytes, above which they are left out.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html
const maxParameters = 100 << 10

// maxText is the length of other texts of a caller's, in bytes. Messages of errors are bounded before.
const maxText = 1 << 10

// recorded is a record of CloudTrail.
type recorded struct {
	EventVersion       string          `json:"eventVersion"`
	UserIdentity       userIdentity    `json:"userIdentity"`
	EventTime          string          `json:"eventTime"`
	EventSource        string          `json:"eventSource"`
	EventName          string          `json:"eventName"`
	AWSRegion          string          `json:"awsRegion"`
	SourceIPAddress    string          `json:"sourceIPAddress"`
	UserAgent          string          `json:"userAgent"`
	ErrorCode          string          `json:"errorCode,omitempty"`
	ErrorMessage       string          `json:"errorMessage,omitempty"`
	RequestParameters  json.RawMessage `json:"requestParameters"`
	ResponseElements   json.RawMessage `json:"responseElements"`
	RequestID          string          `json:"requestID"`
	EventID            string          `json:"eventID"`
	ReadOnly           bool            `json:"readOnly"`
	Resources          []resource      `json:"resources,omitempty"`
	EventType          string          `json:"eventType"`
	ManagementEvent    bool            `json:"managementEvent"`
	RecipientAccountID string          `json:"recipientAccountId"`
	SharedEventID      string          `json:"sharedEventID,omitempty"`
	VPCEndpointID      string          `json:"vpcEndpointId,omitempty"`
	EventCategory      string          `json:"eventCategory"`
}

// header is what LookupEvents looks for, and shows beside a record.
type header struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Source    string  `json:"source"`
	Region    string  `json:"region"`
	User      string  `json:"user,omitempty"`
	Key       string  `json:"key,omitempty"`
	ReadOnly  bool    `json:"readOnly"`
	Resources []named `json:"resources,omitempty"`
}

// event is an event of an account, before it is stored.
type event struct {
	header
	record recorded
}

// text returns the text in which an event is stored: the header, a line end, and the record.
func (e *event) text() (string, error) {
	head, err := json.Marshal(e.header)
	if err != nil {
		return "", fmt.Errorf("header of the event %s: %w", e.ID, err)
	}
	body, err := json.Marshal(&e.record)
	if err != nil {
		return "", fmt.Errorf("record of the event %s: %w", e.ID, err)
	}
	return string(head) + "\n" + string(body), nil
}

// parseEvent is the inverse of text.
func parseEvent(text string) (h header, record string, err error) {
	head, record, ok := strings.Cut(text, "\n")
	if !ok {
		return h, "", fmt.Errorf("an event of %d bytes has no header", len(text))
	}
	if err := json.Unmarshal([]byte(head), &h); err != nil {
		return h, "", fmt.Errorf("the header of an event: %w", err)
	}
	return h, record, nil
}

// newEvents returns the events of a request: one for the account of the caller, and for who assumes a role of another
// account one for that as well.
func newEvents(a *wire.Answered) []event {
	who, name := identityOf(a.Caller)
	account := a.Caller.Account
	if a.Caller.ARN == "" {
		var ok bool
		if who, name, account, ok = bearerOf(a); !ok {
			return nil
		}
	}
	reads := isReadOnly(a.Service, a.Operation)
	secrets := hidden(a.Service)
	null := json.RawMessage("null")
	parameters, response := null, null
	if text, ok := a.AppendInput(nil, secrets, maxParameters); ok && len(text) > len("{}") {
		parameters = text
	}
	if !reads || givesCredentials(a.Service, a.Operation) {
		if text, ok := a.AppendOutput(nil, secrets, maxParameters); ok && len(text) > len("{}") {
			response = text
		}
	}
	var scanned [][]byte
	if !reads && (a.Service == wire.EC2 || a.Service == wire.AutoScaling) {
		scanned = [][]byte{parameters, response}
	}
	resources, names := resourcesOf(a, scanned...)
	e := event{
		header: header{ID: uuid.NewString(), Name: a.Operation, Source: a.Service.SigningName + ".amazonaws.com",
			Region: regionOf(a), User: name, Key: a.Caller.AccessKeyID, ReadOnly: reads, Resources: names},
		record: recorded{
			EventVersion: "1.11", UserIdentity: who, EventTime: a.Time.UTC().Format(time.RFC3339),
			UserAgent: cut(a.UserAgent), ErrorCode: errorCodeOf(a), ErrorMessage: a.ErrorMessage,
			RequestParameters: parameters, ResponseElements: response, RequestID: a.RequestID, ReadOnly: reads,
			Resources: resources, EventType: "AwsApiCall", ManagementEvent: true, RecipientAccountID: account,
			EventCategory: "Management",
		},
	}
	e.record.EventSource, e.record.EventName, e.record.AWSRegion, e.record.EventID = e.Source, e.Name, e.Region, e.ID
	e.record.SourceIPAddress, e.record.VPCEndpointID = sourceOf(a)
	if service := a.Caller.Service; service != "" {
		e.record.SourceIPAddress, e.record.UserAgent = service, service
	}
	owner := assumedOwner(a)
	if owner == "" || owner == account {
		return []event{e}
	}
	e.record.SharedEventID = uuid.NewString()
	shared := e
	shared.ID, shared.User, shared.Key = uuid.NewString(), "", ""
	shared.record.EventID, shared.record.RecipientAccountID = shared.ID, owner
	shared.record.UserIdentity = userIdentity{Type: "AWSAccount", PrincipalID: who.PrincipalID, AccountID: account}
	return []event{e, shared}
}

// assumedOwner returns the account of the role that a request has assumed; empty for another request.
func assumedOwner(a *wire.Answered) string {
	in, ok := a.Input.(*sts.AssumeRoleInput)
	if !ok || a.ErrorCode != "" {
		return ""
	}
	_, _, account := describeARN(aws.ToString(in.RoleArn))
	return account
}

// regionOf returns the region in whose history a request is. IAM is global.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-concepts.html
func regionOf(a *wire.Answered) string {
	if a.Service == wire.IAM {
		return "us-east-1"
	}
	return a.Region
}

// sourceOf returns the address that a request came from, and the VPC endpoint that it went through.
func sourceOf(a *wire.Answered) (address, endpoint string) {
	switch {
	case a.VPC != nil && a.VPC.PublicIP != "":
		return a.VPC.PublicIP, ""
	case a.VPC != nil:
		return a.VPC.PrivateIP, a.VPC.EndpointID
	case a.SourceIP == "":
		return "AWS Internal", ""
	}
	return a.SourceIP, ""
}

// errorCodeOf returns the code of an error as CloudTrail writes it.
func errorCodeOf(a *wire.Answered) string {
	switch {
	case a.ErrorCode == "":
		return ""
	case a.Service == wire.EC2 && strings.HasPrefix(a.ErrorCode, "Internal"):
		return "Server." + a.ErrorCode
	case a.Service == wire.EC2:
		return "Client." + a.ErrorCode
	case a.ErrorCode == "AccessDeniedException":
		return "AccessDenied"
	}
	return a.ErrorCode
}

// cut returns the beginning of a text that a caller chose.
func cut(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
		for !utf8.ValidString(text) && len(text) > maxText-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	return text
}

// shown returns an event as LookupEvents shows it.
func (h *header) shown(record string, at time.Time) types.Event {
	e := types.Event{CloudTrailEvent: &record, EventId: &h.ID, EventName: &h.Name, EventSource: &h.Source,
		EventTime: aws.Time(at.UTC().Truncate(time.Second)), ReadOnly: aws.String(fmt.Sprint(h.ReadOnly)),
		Resources: []types.Resource{}}
	if h.User != "" {
		e.Username = &h.User
	}
	if h.Key != "" {
		e.AccessKeyId = &h.Key
	}
	for _, n := range h.Resources {
		e.Resources = append(e.Resources, types.Resource{ResourceType: &n[0], ResourceName: &n[1]})
	}
	return e
}

// quoted returns a text as it is written in JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text) // a text always is
	return string(bytes.TrimSpace(b))
}
