// Prints the records of a topic as they come, as a member of a consumer group that goes on where it stopped:
// `go run ./consumer -topic t [-group readers] [-count n] [-bootstrap localhost:9092]`.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	topic := flag.String("topic", "", "topic to read")
	group := flag.String("group", "readers", "consumers of one group share the partitions")
	count := flag.Int("count", 0, "stops after so many records; 0 goes on")
	bootstrap := flag.String("bootstrap", "localhost:9092", "addresses, with commas between")
	flag.Parse()
	if *topic == "" {
		log.Fatal("-topic is needed")
	}

	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.ConsumerGroup(*group),
		kgo.ConsumeTopics(*topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
	)
	if err != nil {
		log.Fatal(err)
	}
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()

	printed := 0
	for *count == 0 || printed < *count {
		fetches := client.PollFetches(stop)
		if stop.Err() != nil {
			break
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Printf("%s-%d: %v", topic, partition, err)
		})
		for records := fetches.RecordIter(); !records.Done() && (*count == 0 || printed < *count); {
			record := records.Next()
			fmt.Printf("partition %d offset %d: %s\n", record.Partition, record.Offset, record.Value)
			// Only what was printed is committed.
			client.MarkCommitRecords(record)
			printed++
		}
	}
	if err := client.CommitMarkedOffsets(context.Background()); err != nil {
		log.Fatal(err)
	}
	client.Close()
}
