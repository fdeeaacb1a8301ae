package vended

import (
	"slices"
	"strings"
)

// The kinds of logs of load balancers.
const (
	ApplicationAccess      = "ALB_ACCESS_LOGS"
	ApplicationConnections = "ALB_CONNECTION_LOGS"
	NetworkAccess          = "NLB_ACCESS_LOGS"
)

// Service is the name of the service whose resources have the logs, as in their ARNs.
const Service = "elasticloadbalancing"

// Type is a kind of log.
type Type struct {
	Name string
	// Resource begins the resource of the ARNs of what has such a log: "loadbalancer/app/".
	Resource string
	// Fields are those of an entry, in their order. A delivery has all of them unless it names others.
	Fields []Field
}

// Field is a field of the entries of a log.
type Field struct {
	Name string
	// Quoted is set where the field is in double quotes, with what would end it written as \xNN.
	Quoted bool
}

// newFields returns fields by their names, which are in double quotes where the field is.
func newFields(names string) (all []Field) {
	for _, name := range strings.Fields(names) {
		all = append(all, Field{strings.Trim(name, `"`), strings.HasPrefix(name, `"`)})
	}
	return all
}

// types are the kinds of logs that are delivered.
//
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-connection-logs.html
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-access-logs.html
var types = []Type{
	{ApplicationAccess, "loadbalancer/app/", newFields(`type time elb client:port target:port request_processing_time
		target_processing_time response_processing_time elb_status_code target_status_code received_bytes sent_bytes
		"request_line" "user_agent" ssl_cipher ssl_protocol target_group_arn "trace_id" "domain_name" "chosen_cert_arn"
		matched_rule_priority request_creation_time "actions_executed" "redirect_url" "error_reason" "target:port_list"
		"target_status_code_list" "classification" "classification_reason" conn_trace_id "transformed_host"
		"transformed_uri" request_transform_status ip_address`)},
	{ApplicationConnections, "loadbalancer/app/", newFields(`time client_ip client_port listener_port tls_protocol
		tls_cipher tls_handshake_latency "leaf_client_cert_subject" leaf_client_cert_validity
		leaf_client_cert_serial_number tls_verify_status conn_trace_id tls_keyexchange elb ip_address`)},
	{NetworkAccess, "loadbalancer/net/", newFields(`type version time elb listener client:port destination:port
		connection_time tls_handshake_time received_bytes sent_bytes incoming_tls_alert chosen_cert_arn
		chosen_cert_serial tls_cipher tls_protocol_version tls_keyexchange domain_name alpn_fe_protocol
		alpn_be_protocol alpn_client_preference_list tls_connection_creation_time`)},
}

// Types returns the kinds of logs that are delivered.
func Types() []Type { return slices.Clone(types) }

// TypeNamed returns the kind of log of that name.
func TypeNamed(name string) (t Type, ok bool) {
	i := slices.IndexFunc(types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return t, false
	}
	return types[i], true
}

// FieldNames returns the names of the fields, in their order.
func (t Type) FieldNames() (names []string) {
	for _, f := range t.Fields {
		names = append(names, f.Name)
	}
	return names
}
