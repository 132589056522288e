// The session by franz-go and its admin client kadm.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"steps"
)

type client struct {
	bootstrap string
	admin     *kadm.Client
}

func main() {
	steps.Run(func(bootstrap string) (steps.Client, error) {
		plain, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
		if err != nil {
			return nil, err
		}
		return &client{bootstrap, kadm.NewClient(plain)}, nil
	})
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func (c *client) CreateTopic(topic string, partitions int) error {
	ctx, cancel := soon()
	defer cancel()
	_, err := c.admin.CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return err
}

func (c *client) DeleteTopic(topic string) error {
	ctx, cancel := soon()
	defer cancel()
	_, err := c.admin.DeleteTopic(ctx, topic)
	return err
}

func (c *client) Topics() ([]string, error) {
	ctx, cancel := soon()
	defer cancel()
	topics, err := c.admin.ListTopics(ctx)
	return topics.Names(), err
}

func (c *client) Partitions(topic string) (int, error) {
	ctx, cancel := soon()
	defer cancel()
	topics, err := c.admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(topics[topic].Partitions), topics[topic].Err
}

func (c *client) AddPartitions(topic string, total int) error {
	ctx, cancel := soon()
	defer cancel()
	done, err := c.admin.UpdatePartitions(ctx, total, topic)
	if err != nil {
		return err
	}
	return done.Error()
}

func (c *client) Produce(topic string, how steps.How, records []steps.Record) ([]int64, error) {
	codecs := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	options := []kgo.Opt{kgo.SeedBrokers(c.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codecs[how.Codec])}
	if !how.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	ctx, cancel := soon()
	defer cancel()
	sent := make([]*kgo.Record, len(records))
	for n, record := range records {
		sent[n] = &kgo.Record{Topic: topic, Partition: record.Partition, Key: record.Key, Value: record.Value, Timestamp: record.Time}
		for _, header := range record.Headers {
			sent[n].Headers = append(sent[n].Headers, kgo.RecordHeader{Key: header.Key, Value: header.Value})
		}
	}
	if err := producer.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(sent))
	for n, record := range sent {
		offsets[n] = record.Offset
	}
	return offsets, nil
}

func from(record *kgo.Record) steps.Record {
	read := steps.Record{Key: record.Key, Value: record.Value, Time: record.Timestamp, Partition: record.Partition, Offset: record.Offset}
	for _, header := range record.Headers {
		read.Headers = append(read.Headers, steps.Header{Key: header.Key, Value: header.Value})
	}
	return read
}

func (c *client) Consume(topic string, partition int32, at int64, count int) ([]steps.Record, error) {
	offsets := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(at)}}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap), kgo.ConsumePartitions(offsets))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	ctx, cancel := soon()
	defer cancel()
	var read []steps.Record
	for len(read) < count {
		fetches := consumer.PollRecords(ctx, count-len(read))
		if err := fetches.Err(); err != nil {
			return read, err
		}
		fetches.EachRecord(func(record *kgo.Record) { read = append(read, from(record)) })
	}
	return read, nil
}

func (c *client) Bounds(topic string, partition int32) (int64, int64, error) {
	ctx, cancel := soon()
	defer cancel()
	first, err := c.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	next, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	return first[topic][partition].Offset, next[topic][partition].Offset, errors.Join(first.Error(), next.Error())
}

func (c *client) OffsetAt(topic string, partition int32, at time.Time) (int64, error) {
	ctx, cancel := soon()
	defer cancel()
	listed, err := c.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	if err != nil {
		return 0, err
	}
	found := listed[topic][partition]
	if found.Timestamp == -1 { // kadm then gives the end
		return -1, found.Err
	}
	return found.Offset, found.Err
}

func (c *client) DeleteRecords(topic string, partition int32, before int64) error {
	ctx, cancel := soon()
	defer cancel()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, before, -1)
	done, err := c.admin.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	return done.Error()
}

type member struct {
	consumer *kgo.Client
	records  chan steps.Record
	stop     context.CancelFunc
	close    sync.Once
}

func (c *client) Join(group, topic string) (steps.Member, error) {
	consumer, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{consumer: consumer, records: make(chan steps.Record), stop: stop}
	go func() {
		for ctx.Err() == nil {
			consumer.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
				select {
				case m.records <- from(record):
				case <-ctx.Done():
				}
			})
		}
	}()
	return m, nil
}

func (m *member) Records() <-chan steps.Record { return m.records }

func (m *member) Commit(topic string, record steps.Record) error {
	ctx, cancel := soon()
	defer cancel()
	return m.consumer.CommitRecords(ctx, &kgo.Record{Topic: topic, Partition: record.Partition, Offset: record.Offset, LeaderEpoch: -1})
}

func (m *member) Close() error {
	m.close.Do(func() {
		m.stop()
		m.consumer.Close()
	})
	return nil
}

func (c *client) Commit(group, topic string, partition int32, offset int64, metadata string) error {
	ctx, cancel := soon()
	defer cancel()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: metadata})
	return c.admin.CommitAllOffsets(ctx, group, offsets)
}

func (c *client) Committed(group, topic string, partition int32) (int64, string, error) {
	ctx, cancel := soon()
	defer cancel()
	found, err := c.admin.FetchOffsetsForTopics(ctx, group, topic)
	if err != nil {
		return 0, "", err
	}
	offset, _ := found.Lookup(topic, partition)
	return offset.At, offset.Metadata, offset.Err
}

func (c *client) Groups() ([]string, error) {
	ctx, cancel := soon()
	defer cancel()
	groups, err := c.admin.ListGroups(ctx)
	return groups.Groups(), err
}

func (c *client) DescribeGroup(group string) (string, int, error) {
	ctx, cancel := soon()
	defer cancel()
	groups, err := c.admin.DescribeGroups(ctx, group)
	if err != nil {
		return "", 0, err
	}
	return groups[group].State, len(groups[group].Members), groups[group].Err
}

func (c *client) DeleteGroup(group string) error {
	ctx, cancel := soon()
	defer cancel()
	_, err := c.admin.DeleteGroup(ctx, group)
	return err
}

func (c *client) Config(topic, name string) (string, error) {
	ctx, cancel := soon()
	defer cancel()
	configs, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	config, err := configs.On(topic, nil)
	if err != nil {
		return "", err
	}
	for _, entry := range config.Configs {
		if entry.Key == name {
			return entry.MaybeValue(), config.Err
		}
	}
	return "", errors.Join(errors.New("no such setting"), config.Err)
}

func (c *client) SetConfig(topic, name, value string) error {
	ctx, cancel := soon()
	defer cancel()
	done, err := c.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err != nil {
		return err
	}
	altered, err := done.On(topic, nil)
	return errors.Join(err, altered.Err)
}

func (c *client) IsExists(err error) bool  { return errors.Is(err, kerr.TopicAlreadyExists) }
func (c *client) IsUnknown(err error) bool { return errors.Is(err, kerr.UnknownTopicOrPartition) }
