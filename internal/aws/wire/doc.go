// Package wire serves the AWS protocols: it turns an HTTP request of any AWS SDK into a call of a Go method, and the
// method's answer into the response that the SDK expects. It knows no operation by name.
//
// A service is a list of [Handler] values, registered with [Mux.Register]. [Handle] makes one of a function of the form
//
//	func (s *Service) CreateCluster(ctx context.Context, in *eks.CreateClusterInput) (*eks.CreateClusterOutput, error)
//
// and of the [Targets] that its caller needs permission for. A request goes through these steps, each answering with
// the error that AWS gives:
//
//  1. The body is read, up to a limit.
//  2. The signature is parsed; its credential scope names the service and the region. A request without one is refused
//     unless [HandleUnsigned] serves the operation.
//  3. The operation is found: by method and path (restJson1), by path (rpcv2Cbor), by X-Amz-Target (awsJson), by the
//     parameter Action (awsQuery, ec2Query).
//  4. The credentials are looked up ([Credentials]) and the signature is verified.
//  5. The request waits for a turn of its account (turns.go), so that no account takes the daemon from the others.
//     Requests of controllers do not wait.
//  6. The request is decoded into the SDK's own input structure; required members and constraints are checked.
//  7. The [Authorizer] is asked about the targets that the operation's [Targets] returns, or about the action on "*".
//     [store.Decide] holds the records that the targets were read from: a write of step 8 is authorized anew when one
//     of them has changed.
//  8. The function runs. Its output, or its error, is encoded for the protocol.
//
// [Options].Answered is then told of the request, if its signature was good: that makes the event history.
//
// An operation that answers with a stream of events has a method with the events as one more result:
//
//	func (s *Service) StartLiveTail(ctx context.Context, in *cloudwatchlogs.StartLiveTailInput) (
//		*cloudwatchlogs.StartLiveTailOutput, iter.Seq2[types.StartLiveTailResponseStream, error], error)
//
// Its own error is an ordinary answer. Otherwise wire ranges over the iterator, exactly once, and sends each event as
// it comes; an error among them is the last that the client hears. ctx is done when the client has gone: an iterator
// that waits, waits for that as well.
//
// # Schemas
//
// What a member is called on the wire comes from Smithy schemas. For its JSON services (eks, cloudwatchlogs, ssm, kms,
// ecr, sqs) and cloudwatch, aws-sdk-go-v2 ships them as service/<name>/schemas. For its query services (ec2, iam, sts,
// cloudformation, autoscaling, elasticloadbalancingv2) it does not yet; package model builds the same values from a
// compact wire model, generated from the SDK's own serializers and deserializers by the version that go.mod pins (see
// hack/modelgen for why that source).
package wire
