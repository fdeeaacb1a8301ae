// Package proof shows that package wire and the AWS SDK understand each other, operation by operation. It has only
// tests, apart from wire's own because they link every service of the SDK that wire knows.
//
//   - Requests: every request snapshot that the SDK modules ship (a wire example of each operation that we did not
//     write) is decoded, sent again by the real SDK client from what was decoded, and compared with the snapshot.
//   - Answers: the output of every operation is filled with generated values, encoded by wire and decoded by the real
//     SDK client.
//   - Response snapshots, for the services that ship them: decoded by the SDK client, encoded by wire, compared with
//     the snapshot.
//   - Streams: every event of every operation that answers with a stream, and every exception of the stream, is filled,
//     encoded by wire and received by the real SDK client.
//   - Errors: every modeled error, filled with generated values, is rendered by wire and comes out of the SDK client
//     as that type.
//   - Fuzzing: no request makes a decoder panic, and what decodes survives another trip.
package proof
