// Sends each line of standard input as a record: `go run ./producer -topic t [-bootstrap localhost:9092]`.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	topic := flag.String("topic", "", "topic to send to; it is made if it is not there")
	bootstrap := flag.String("bootstrap", "localhost:9092", "addresses, with commas between")
	flag.Parse()
	if *topic == "" {
		log.Fatal("-topic is needed")
	}

	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.DefaultProduceTopic(*topic),
		kgo.AllowAutoTopicCreation(),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	var failed atomic.Int64
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		// Blocks while too much is buffered.
		client.Produce(context.Background(), kgo.StringRecord(lines.Text()), func(record *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
				log.Println("not delivered:", err)
				return
			}
			fmt.Printf("partition %d offset %d\n", record.Partition, record.Offset)
		})
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	if err := client.Flush(context.Background()); err != nil {
		log.Fatal(err)
	}
	if failed.Load() > 0 {
		log.Fatal(failed.Load(), " records were not delivered")
	}
}
