// SPDX-License-Identifier: Apache-2.0

// Writes lines to a topic's partition 0, or reads them back, by KafkaJS:
//
//   node roundtrip.js produce BROKER TOPIC CODEC < lines
//   node roundtrip.js consume BROKER TOPIC > lines
//
// KafkaJS's consumer works in a consumer group only. consume therefore uses
// what lies below that consumer: its cluster, its fetch request and its way
// of taking batches apart.
'use strict'

const { once } = require('node:events')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const Batch = require('kafkajs/src/consumer/batch')
const { createLogger } = require('kafkajs/src/loggers')
const consoleLog = require('kafkajs/src/loggers/console')
const socketFactory = require('kafkajs/src/network/socketFactory')

const sendBytes = 256 * 1024 // of lines in one send, below max.message.bytes
const fetchBytes = 4 * 1024 * 1024
const newline = Buffer.from('\n')

const types = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

// KafkaJS brings gzip; the others are plugged in as its users do.
async function plugInCodecs() {
  const lz4 = require('lz4js')
  const zstd = require('@bokuweb/zstd-wasm')
  await zstd.init()
  CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async encoder => Buffer.from(lz4.compress(encoder.buffer)),
    decompress: async buffer => Buffer.from(lz4.decompress(buffer)),
  })
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async encoder => Buffer.from(zstd.compress(encoder.buffer, 3)),
    decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
  })
}

async function readLines(input) {
  const chunks = []
  for await (const chunk of input) chunks.push(chunk)
  const text = Buffer.concat(chunks)
  const lines = []
  for (let from = 0; from < text.length; ) {
    const to = text.indexOf(0x0a, from)
    if (to < 0) throw new Error('the last line has no end')
    lines.push(text.subarray(from, to))
    from = to + 1
  }
  return lines
}

// offsets asks by the admin client, and checks what it says of the topic.
async function offsets(kafka, topic) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const [{ partitions }] = topics
    if (partitions.length !== 1 || partitions[0].partitionErrorCode !== 0 || partitions[0].leader < 0) {
      throw new Error(`metadata of ${topic}: ${JSON.stringify(partitions)}`)
    }
    const [{ low, high }] = await admin.fetchTopicOffsets(topic)
    return { low: Number(low), high: Number(high) }
  } finally {
    await admin.disconnect()
  }
}

async function produce(kafka, topic, codec) {
  const lines = await readLines(process.stdin)
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
  await producer.connect()
  let messages = []
  let bytes = 0
  let next = 0
  const send = async () => {
    const [{ errorCode, baseOffset }] = await producer.send({ topic, acks: -1, compression: types[codec], messages })
    if (errorCode !== 0 || Number(baseOffset) !== next) {
      throw new Error(`a send came to offset ${baseOffset}, want ${next}, error code ${errorCode}`)
    }
    next += messages.length
    messages = []
    bytes = 0
  }
  for (const value of lines) {
    messages.push({ value, partition: 0 })
    bytes += value.length
    if (bytes >= sendBytes) await send()
  }
  if (messages.length > 0) await send()
  await producer.disconnect()
  const { low, high } = await offsets(kafka, topic)
  if (low !== 0 || high !== lines.length) {
    throw new Error(`the topic has offsets ${low} to ${high} after ${lines.length} lines`)
  }
}

async function consume(kafka, broker, topic) {
  const { low, high } = await offsets(kafka, topic)
  const cluster = new Cluster({
    logger: createLogger({ level: logLevel.WARN, logCreator: consoleLog }),
    socketFactory: socketFactory(),
    brokers: [broker],
    clientId: 'kafkajs',
    connectionTimeout: 10000,
    metadataMaxAge: 300000,
    allowAutoTopicCreation: false,
  })
  await cluster.connect()
  await cluster.addTargetTopic(topic)
  const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [0]))
  const leader = await cluster.findBroker({ nodeId })
  let next = low
  while (next < high) {
    const partitions = [{ partition: 0, fetchOffset: String(next), maxBytes: fetchBytes }]
    const answer = await leader.fetch({ maxWaitTime: 500, minBytes: 1, topics: [{ topic, partitions }] })
    const batch = new Batch(topic, String(next), answer.responses[0].partitions[0])
    const values = []
    for (const { offset, value } of batch.messages) {
      if (Number(offset) !== next) throw new Error(`offset ${offset} came after ${next - 1}`)
      values.push(value, newline)
      next++
    }
    if (!process.stdout.write(Buffer.concat(values))) await once(process.stdout, 'drain')
  }
  await cluster.disconnect()
}

async function main([what, broker, topic, codec]) {
  await plugInCodecs()
  const kafka = new Kafka({ brokers: [broker], clientId: 'kafkajs', connectionTimeout: 10000, logLevel: logLevel.WARN })
  switch (what) {
    case 'produce':
      return produce(kafka, topic, codec)
    case 'consume':
      return consume(kafka, broker, topic)
    default:
      throw new Error(`want produce or consume, not ${what}`)
  }
}

main(process.argv.slice(2)).catch(err => {
  console.error(err)
  process.exitCode = 1
})
